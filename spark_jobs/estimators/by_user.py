"""Groups of users."""

GROUPS = 64
"""Groups of users by hash: the marts hold sums of them, in a network."""
