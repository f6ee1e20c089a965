"""How does goodput differ with TCP options? Table III, Figs. 14 to 17 (INFOCOM 2004, VII)."""
