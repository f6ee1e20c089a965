"""Which five things should a reader know: peak, losses, limits, options and the data?"""
