"""IP IDs (RFC 6864): where a sender counts its packets with them, they tell the order of sending.

Linux counts by connection; SYN ACKs and what a connection in TIME-WAIT sends have other IDs, 0
among them. Other senders count all that they send, or all that they send to a host: this order
holds, too, but what others were sent lies between. Many send random IDs, or 0: those tell nothing,
nor do counters in the wrong byte order, whose steps are of 256.
"""

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.tcp import ACK, RST, SYN

IN_ORDER = 16
"""IP IDs count a connection's packets up if most steps, forth or back, are of fewer than these,"""
MOSTLY = 0.8
"""which is this share."""
SPENT = 16
"""For each ID that was passed over, so many packets are looked through for who came with it."""
NEAR = 1000
"""An ID that lies so little behind the latest is of an earlier packet (RFC 6864)."""


@inner
def ahead(number, latest):
    """By how many an IP ID is ahead of the latest; negative: behind; 0: neither, or too far."""
    step = (np.int64(number) - latest) & 0xFFFF
    if step < NEAR:
        return step
    if step > 0xFFFF - NEAR:
        return step - 0x10000
    return np.int64(0)


@inner
def count_up(begin, end, segments, downlink):
    """Whether the IDs of the segments of one direction in [begin, end) tell the order of sending.
    They may have overtaken each other."""
    steps, small, _ = _steps(begin, end, segments, downlink)
    return steps > 0 and small >= MOSTLY * steps


@inner
def count_these(begin, end, segments, downlink):
    """(whether the IDs of the segments of one direction in [begin, end) tell the order of sending;
    whether they count, as far as can be told, no others)."""
    steps, small, next_ones = _steps(begin, end, segments, downlink)
    return steps > 0 and small >= MOSTLY * steps, steps > 0 and next_ones >= MOSTLY * steps


@inner
def _steps(begin, end, segments, downlink):
    """Of the segments of one direction in [begin, end): how many IDs followed another, how many of
    these were close to it, and how many were the next one."""
    latest = np.int64(-1)
    steps = small = next_ones = 0
    for i in range(begin, end):
        if segments.downlink[i] != downlink or segments.tcp_flags[i] & (SYN | RST):
            continue
        number = np.int64(segments.ip_id[i])
        if number == 0:
            continue
        if latest >= 0:
            steps += 1
            step = (number - latest) & 0xFFFF
            if 0 < step < IN_ORDER or step > 0x10000 - IN_ORDER:
                small += 1
            next_ones += step == 1
        latest = number
    return steps, small, next_ones


@inner
def count_alone(begin, end, segments):
    """Whether IDs that count up count this connection's packets alone: Linux does so, begins
    anywhere, and gives a SYN ACK another ID. Who counts all packets, or those to a host, counts
    SYN ACKs, too: the next ID is little higher."""
    answered = False
    number = np.int64(0)
    for i in range(begin, end):
        if not segments.downlink[i] or segments.tcp_flags[i] & RST:
            continue
        if segments.tcp_flags[i] & SYN:
            answered = segments.tcp_flags[i] & ACK != 0
            number = np.int64(segments.ip_id[i])
        else:
            first = segments.ip_id[i]
            return answered and first != number and ahead(first, number) <= 0
    return False


@inner
def of_others(packets, before, after, step):
    """With how many of the IDs between those of two Packets of a mobile, `step` apart, others of
    its packets came in between."""
    latest, others = packets.ip_id[before], np.int64(0)
    if step > 1:
        for p in range(before + 1, min(after, before + SPENT * step)):
            if not packets.downlink[p] and 0 < ahead(packets.ip_id[p], latest) < step:
                others += 1
    return others
