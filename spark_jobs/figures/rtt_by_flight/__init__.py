"""How does the RTT grow with the bytes in flight? Source: the study of buffers, Figs. 3 and 4."""
