"""Users' packets from the warehouse: read by user, with the names that users have on a day."""
