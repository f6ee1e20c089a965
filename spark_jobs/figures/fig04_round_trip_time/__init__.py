"""How are the RTTs of the handshakes distributed on either side? Fig. 4 (INFOCOM 2004, III.B)."""
