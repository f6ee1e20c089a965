"""The respects in which connections are the worst, and their order."""

SHOWN = 20
"""Number of connections in each table; the mart has as many of each local hour."""
WORST_BY = {
    "slowest": ("Slowest: the least goodput, of more than 32 KiB", "goodput"),
    "most_stalled": ("Most stalled: the longest time in stalls", "stalled desc"),
    "most_lossy": ("Most lossy: the largest share of lost packets, of at least 20", "loss desc"),
}
"""By worst_by: title of the table, and SQL of its order."""
