"""Which five things should a reader know first: at peak, of losses, limits, options and the data?"""
