"""The networks file."""
