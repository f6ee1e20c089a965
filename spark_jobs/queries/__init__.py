"""Users' SQL: its guard, its limits, and the views that it sees."""
