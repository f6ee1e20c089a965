"""How long do packets wait at most? Source: the study of GPRS buffers, Fig. 2."""
