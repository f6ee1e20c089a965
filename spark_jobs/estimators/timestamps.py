"""Timestamps (RFC 7323) that stay comparable over long silences.

A clock that counts µs turns half around in 35.8 minutes. After a longer silence its timestamps seem
to have gone back, and so receivers do not compare them (RFC 7323, 5.5). Here the timestamps after
such a silence are shifted, so that they go on where they were before it.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators.records import Segments
from spark_jobs.estimators.window import OUTDATED_US

CLOCK = np.dtype([("latest", "u4"), ("before", "u4"), ("old", "u4"), ("offset", "u4")])
"""The clock of one end: latest timestamp, the last one before the latest silence, and what is added
to timestamps before and after it."""


def continued(segments: Segments, first: np.ndarray) -> Segments:
    """Return the segments with timestamps that go on after each long silence of a connection.

    first: each connection's first segment.
    """
    is_late = np.diff(segments.ts) > OUTDATED_US
    is_late[first[1:-1] - 1] = False
    if not is_late.any():
        return segments
    late = np.flatnonzero(is_late) + 1
    connections = np.unique(np.searchsorted(first, late, "right") - 1)
    columns = {"ts_val": segments.ts_val.copy(), "ts_ecr": segments.ts_ecr.copy()}
    _shift(connections, first, segments, columns["ts_val"], columns["ts_ecr"])
    return segments._replace(**columns)


@compiled
def _shift(connections, first, segments, ts_val, ts_ecr):
    """Shift the timestamps of some connections, in place."""
    clocks = np.zeros(2, CLOCK)
    for c in connections:
        clocks[:] = np.zeros(2, CLOCK)[0]
        begins = np.zeros(2, np.bool_)
        for i in range(first[c], first[c + 1]):
            if i > first[c] and segments.ts[i] - segments.ts[i - 1] > OUTDATED_US:
                begins[:] = True
            if not segments.has_timestamps[i]:
                continue
            own, other = (0, 1) if segments.downlink[i] else (1, 0)
            value, echo = segments.ts_val[i], segments.ts_ecr[i]
            if begins[own]:
                _begin_again(clocks[own], value)
                begins[own] = False
            clocks[own].latest = value
            ts_val[i] = value + clocks[own].offset
            ts_ecr[i] = echo + _offset_at(clocks[other], echo)


@inner
def _begin_again(clock, value):
    """Shift an end's clock, so that its next timestamp, `value`, follows the latest one."""
    clock.old, clock.before = clock.offset, clock.latest
    clock.offset = np.uint32(clock.latest + clock.offset + np.uint32(1) - value)


@inner
def _offset_at(clock, echo):
    """Return what is added to an echo of an end's clock."""
    age = abs(np.int64(np.int32(clock.latest - echo)))
    age_before = abs(np.int64(np.int32(clock.before - echo)))
    return clock.old if age_before < age else clock.offset
