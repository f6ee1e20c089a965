"""Which share of the packets is marked by ECN instead of being lost, and on which side?"""
