"""How long each timeout that a replay found (replay.RTO) lasted, and the round trip before it."""

import numpy as np


def in_order(found: np.ndarray) -> np.ndarray:
    """replay.RTO or samples.SAMPLE by connection and time, as the functions below take them; those
    of a time stay as the replay has them: what it says last holds."""
    if not len(found):
        return found
    first = found["ts"].min()
    span = found["ts"].max() - first + 1
    # Nearly in order already, which this sort makes use of.
    return found[np.argsort(found["connection"] * span + found["ts"] - first, kind="stable")]


def lasted_us(timers: np.ndarray, end_us: np.ndarray) -> np.ndarray:
    """int64[timers]: how long each was the timeout, up to the connection's next or its end; end_us:
    when each connection ended (µs)."""
    until = end_us[timers["connection"]]
    goes_on = timers["connection"][1:] == timers["connection"][:-1]
    until[:-1][goes_on] = timers["ts"][1:][goes_on]
    return np.maximum(until - timers["ts"], 0)


def latest_us(timers: np.ndarray, trips: np.ndarray) -> np.ndarray:
    """float64[timers]: the round trip that was measured last in the connection by then (µs); NaN:
    none was. trips: samples.SAMPLE of one side."""
    if not len(timers) or not len(trips):
        return np.full(len(timers), np.nan)
    first = min(timers["ts"].min(), trips["ts"].min())
    span = max(timers["ts"].max(), trips["ts"].max()) - first + 1
    when, seen = (of["connection"] * span + of["ts"] - first for of in (timers, trips))
    at = np.searchsorted(seen, when, side="right") - 1
    known = (at >= 0) & (trips["connection"][at] == timers["connection"])
    return np.where(known, trips["rtt"][at], np.nan)
