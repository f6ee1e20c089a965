"""Which share of the data packets is lost on either side? Table II (INFOCOM 2004, V)."""
