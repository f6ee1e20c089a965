"""Duration of each RTO that a replay found (replay.RTO), and the RTT sample before it."""

import numpy as np

from spark_jobs.compiled import compiled, inner, making

MAX_MOVES_PER_RECORD = 16
"""Maximum moves per record of the insertion sort; beyond it the records are sorted anew."""


@compiled
def in_order(records):
    """Return replay.RTO or rtt_sampling.SAMPLE sorted by connection and time.

    Records with equal time keep the order of the replay, so that the last one is the valid one. The
    replay finds them nearly in order. The functions below need sorted records.
    """
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
    """Return int64[n], the sorted order of any records."""
    by_time = np.argsort(records["ts"], kind="mergesort")
    return by_time[np.argsort(records["connection"][by_time], kind="mergesort")]


def durations_us(rto_values: np.ndarray, end_us: np.ndarray) -> np.ndarray:
    """Return int64[rto_values]: how long each RTO was in force (µs).

    It is in force until the connection's next RTO, or until the connection ends. end_us: int64[C],
    when each connection ended (µs).
    """
    until = end_us[rto_values["connection"]]
    has_successor = rto_values["connection"][1:] == rto_values["connection"][:-1]
    until[:-1][has_successor] = rto_values["ts"][1:][has_successor]
    return np.maximum(until - rto_values["ts"], 0)


@compiled
def latest_rtt_us(rto_values, rtt_samples):
    """Return float64[rto_values]: the connection's last RTT sample by the time of each RTO (µs).

    NaN: there was none. rtt_samples: rtt_sampling.SAMPLE of one side.
    """
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
