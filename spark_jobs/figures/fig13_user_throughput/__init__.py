"""How fast are users with background traffic? Fig. 13 (INFOCOM 2004, VI.B)."""
