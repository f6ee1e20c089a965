"""The categories of set-ups, and the axis of their delays."""

BIN_S, SHOWN_S = 0.1, 10.0
"""Width of a bin, and end of the time axis (s)."""
CATEGORIES = {
    "1 SYN, 1 SYN ACK, no background traffic": (True, False),
    "1 SYN, 1 SYN ACK, background traffic": (True, True),
    "1+ SYN and/or 1+ SYN ACK, no background traffic": (False, False),
    "1+ SYN and/or 1+ SYN ACK, background traffic": (False, True),
}
"""By label: (one SYN and one SYN ACK, background traffic)."""
