"""Which options, segment sizes and windows do the connections use? Table I (INFOCOM 2004, II)."""
