"""On which side do connections lose more packets? Fig. 8 (INFOCOM 2004, V)."""
