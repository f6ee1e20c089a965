"""Of how much traffic is the channel rate known? For Fig. 7 (INFOCOM 2004, IV)."""
