"""How long do pages take to load, over how many connections? Source: the UMTS study, Fig. 4."""
