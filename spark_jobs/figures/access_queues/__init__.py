"""What do the queues in front of the access links do? Sources: RFC 7567, 8289, 8290 and 8033."""
