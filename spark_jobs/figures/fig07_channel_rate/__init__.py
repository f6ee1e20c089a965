"""At which rates does the channel serve users? Fig. 7 (INFOCOM 2004, IV)."""
