"""How long each timeout that a replay found (replay.RTO) lasted, and the round trip before it."""

import numpy as np

from spark_jobs.compiled import compiled, inner, making

MAX_MOVES_PER_RECORD = 16
"""Moves for each record, beyond which they are sorted otherwise."""


@compiled
def in_order(records):
    """replay.RTO or samples.SAMPLE by connection and time, as the functions below take them; those
    of a time stay as the replay has them: what it says last holds. They are nearly in order, as the
    replay finds them."""
    out = records.copy()
    moves = 0
    for i in range(1, len(out)):
        if not _is_before(records[i], out[i - 1]):
            out[i] = records[i]
            continue
        position = i
        while position > 0 and _is_before(records[i], out[position - 1]):
            out[position] = out[position - 1]
            position -= 1
        out[position] = records[i]
        moves += i - position
        if moves > MAX_MOVES_PER_RECORD * len(out):
            return records[_order(records)]
    return out


@inner
def _is_before(one, other):
    if one.connection != other.connection:
        return one.connection < other.connection
    return one.ts < other.ts


@making
def _order(records):
    """int64[n]: the order of any records."""
    by_time = np.argsort(records["ts"], kind="mergesort")
    return by_time[np.argsort(records["connection"][by_time], kind="mergesort")]


def durations_us(rto_values: np.ndarray, end_us: np.ndarray) -> np.ndarray:
    """int64[rto_values]: how long each was the timeout, up to the connection's next or its end; end_us:
    when each connection ended (µs)."""
    until = end_us[rto_values["connection"]]
    has_successor = rto_values["connection"][1:] == rto_values["connection"][:-1]
    until[:-1][has_successor] = rto_values["ts"][1:][has_successor]
    return np.maximum(until - rto_values["ts"], 0)


@compiled
def latest_rtt_us(rto_values, rtt_samples):
    """float64[rto_values]: the round trip that was measured last in the connection by then (µs); NaN:
    none was. trips: samples.SAMPLE of one side."""
    out = np.full(len(rto_values), np.nan)
    next_sample = 0
    for i in range(len(rto_values)):
        while next_sample < len(rtt_samples) and not _is_before(
            rto_values[i], rtt_samples[next_sample]
        ):
            next_sample += 1
        if next_sample > 0 and rtt_samples[next_sample - 1].connection == rto_values[i].connection:
            out[i] = rtt_samples[next_sample - 1].rtt
    return out
