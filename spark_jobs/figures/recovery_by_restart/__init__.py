"""How do transfers recover from interruptions? Source: the study of preemption, Table I."""
