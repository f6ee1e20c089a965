"""The sides of Gi, and the bins of their RTTs."""

BIN_S = 0.01
"""Width of a bin (s)."""
SIDES = {
    "access": "Access side: Gi, mobile, Gi",
    "internet": "Internet side: Gi, server, Gi",
}
