"""Which captures were read, and which frames were skipped?"""
