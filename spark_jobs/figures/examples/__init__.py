"""Which connections show a limit, or a class of stalls, best?"""
