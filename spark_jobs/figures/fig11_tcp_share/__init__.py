"""Which share of its user's bytes does a connection have? Fig. 11 (INFOCOM 2004, VI.B)."""
