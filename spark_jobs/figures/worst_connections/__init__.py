"""Which connections were the slowest, stalled longest, or lost the largest share of packets?"""
