"""How much throughput does loss cost? Fig. 10 (INFOCOM 2004, VI.A)."""
