"""Into which classes do the set-ups fall? Fig. 5 (INFOCOM 2004, III.C)."""
