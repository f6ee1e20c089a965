"""How is the set-up delay distributed? Fig. 3 (INFOCOM 2004, III.A)."""
