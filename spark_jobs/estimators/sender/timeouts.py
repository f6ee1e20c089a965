"""How long each timeout that a replay found (replay.RTO) lasted, and the round trip before it."""

import numpy as np

from spark_jobs.compiled import compiled, inner, making

FEW_MOVES = 16
"""Moves for each record, beyond which they are sorted otherwise."""


@compiled
def in_order(found):
    """replay.RTO or samples.SAMPLE by connection and time, as the functions below take them; those
    of a time stay as the replay has them: what it says last holds. They are nearly in order, as the
    replay finds them."""
    out = found.copy()
    moves = 0
    for i in range(1, len(out)):
        if not _before(found[i], out[i - 1]):
            out[i] = found[i]
            continue
        place = i
        while place > 0 and _before(found[i], out[place - 1]):
            out[place] = out[place - 1]
            place -= 1
        out[place] = found[i]
        moves += i - place
        if moves > FEW_MOVES * len(out):
            return found[_order(found)]
    return out


@inner
def _before(one, other):
    if one.connection != other.connection:
        return one.connection < other.connection
    return one.ts < other.ts


@making
def _order(found):
    """int64[n]: the order of any records."""
    by_time = np.argsort(found["ts"], kind="mergesort")
    return by_time[np.argsort(found["connection"][by_time], kind="mergesort")]


def lasted_us(rto_values: np.ndarray, end_us: np.ndarray) -> np.ndarray:
    """int64[rto_values]: how long each was the timeout, up to the connection's next or its end; end_us:
    when each connection ended (µs)."""
    until = end_us[rto_values["connection"]]
    goes_on = rto_values["connection"][1:] == rto_values["connection"][:-1]
    until[:-1][goes_on] = rto_values["ts"][1:][goes_on]
    return np.maximum(until - rto_values["ts"], 0)


@compiled
def latest_us(rto_values, trips):
    """float64[rto_values]: the round trip that was measured last in the connection by then (µs); NaN:
    none was. trips: samples.SAMPLE of one side."""
    out = np.full(len(rto_values), np.nan)
    after = 0
    for i in range(len(rto_values)):
        while after < len(trips) and not _before(rto_values[i], trips[after]):
            after += 1
        if after > 0 and trips[after - 1].connection == rto_values[i].connection:
            out[i] = trips[after - 1].rtt
    return out
