"""Which days passed their checks, and which are held back?"""
