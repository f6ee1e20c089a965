"""How long are the servers' RTOs? Source: the study of TCP options, Figs. 4 and 5."""
