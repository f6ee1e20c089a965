"""How fast are large single transfers? Fig. 9 (INFOCOM 2004, VI.A)."""
