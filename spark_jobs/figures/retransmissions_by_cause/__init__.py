"""What do servers retransmit, why, and was it needed? Source: the study of TCP options, Table 2."""
