"""IP IDs (RFC 6864): where a sender counts its packets with them, they tell the order of sending.

Linux counts by connection; SYN ACKs and what a connection in TIME-WAIT sends have other IDs, 0
among them. Other senders count all that they send, or all that they send to a host: this order
holds, too, but what others were sent lies between. Many send random IDs, or 0: those tell nothing,
nor do counters in the wrong byte order, whose steps are of 256.
"""

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.tcp import ACK, RST, SYN

MAX_STEP = 16
"""IP IDs count a connection's packets up if most steps, forth or back, are of fewer than these,"""
MIN_SHARE = 0.8
"""which is this share."""
LOOKAHEAD_PER_ID = 16
"""For each ID that was passed over, so many packets are looked through for who came with it."""
MAX_REORDERING = 1000
"""An ID that lies so little behind the latest is of an earlier packet (RFC 6864)."""


@inner
def ahead(number, latest):
    """By how many an IP ID is ahead of the latest; negative: behind; 0: neither, or too far."""
    step = (np.int64(number) - latest) & 0xFFFF
    if step < MAX_REORDERING:
        return step
    if step > 0xFFFF - MAX_REORDERING:
        return step - 0x10000
    return np.int64(0)


@inner
def is_counter(begin, end, segments, downlink):
    """Whether the IDs of the segments of one direction in [begin, end) tell the order of sending.
    They may have overtaken each other."""
    steps, small, _ = _count_steps(begin, end, segments, downlink)
    return steps > 0 and small >= MIN_SHARE * steps


@inner
def counter_kind(begin, end, segments, downlink):
    """(whether the IDs of the segments of one direction in [begin, end) tell the order of sending;
    whether they count, as far as can be told, no others)."""
    steps, small, next_ones = _count_steps(begin, end, segments, downlink)
    return steps > 0 and small >= MIN_SHARE * steps, steps > 0 and next_ones >= MIN_SHARE * steps


@inner
def _count_steps(begin, end, segments, downlink):
    """Of the segments of one direction in [begin, end): how many IDs followed another, how many of
    these were close to it, and how many were the next one."""
    latest = np.int64(-1)
    steps = small = next_ones = 0
    for i in range(begin, end):
        if segments.downlink[i] != downlink or segments.tcp_flags[i] & (SYN | RST):
            continue
        ip_id = np.int64(segments.ip_id[i])
        if ip_id == 0:
            continue
        if latest >= 0:
            steps += 1
            step = (ip_id - latest) & 0xFFFF
            if 0 < step < MAX_STEP or step > 0x10000 - MAX_STEP:
                small += 1
            next_ones += step == 1
        latest = ip_id
    return steps, small, next_ones


@inner
def is_connection_counter(begin, end, segments):
    """Whether IDs that count up count this connection's packets alone: Linux does so, begins
    anywhere, and gives a SYN ACK another ID. Who counts all packets, or those to a host, counts
    SYN ACKs, too: the next ID is little higher."""
    synack_seen = False
    last_id = np.int64(0)
    for i in range(begin, end):
        if not segments.downlink[i] or segments.tcp_flags[i] & RST:
            continue
        if segments.tcp_flags[i] & SYN:
            synack_seen = segments.tcp_flags[i] & ACK != 0
            last_id = np.int64(segments.ip_id[i])
        else:
            first_id = segments.ip_id[i]
            return synack_seen and first_id != last_id and ahead(first_id, last_id) <= 0
    return False


@inner
def packets_of_others(packets, before, after, step):
    """With how many of the IDs between those of two Packets of a mobile, `step` apart, others of
    its packets came in between."""
    latest, found = packets.ip_id[before], np.int64(0)
    if step > 1:
        for p in range(before + 1, min(after, before + LOOKAHEAD_PER_ID * step)):
            if not packets.downlink[p] and 0 < ahead(packets.ip_id[p], latest) < step:
                found += 1
    return found
