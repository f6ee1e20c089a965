"""IP IDs (RFC 6864): if a sender counts its packets with them, they show the order of sending.

Linux counts per connection. Its SYN ACKs, and packets of a connection in TIME-WAIT, have other IDs,
among them 0. Other senders count all packets that they send, or all packets to a host. This order
holds, too, but packets to other connections take IDs in between. Many senders use random IDs or 0,
which show no order. Counters in the wrong byte order show none either, because their steps are of
256.
"""

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.tcp import ACK, RST, SYN

MAX_STEP = 16
"""Limit of a small step: in a counter most steps, forward or back, are smaller."""
MIN_SHARE = 0.8
"""Minimum share of small steps in a counter."""
LOOKAHEAD_PER_ID = 16
"""Number of packets searched, for each skipped ID, for the packet that has it."""
MAX_REORDERING = 1000
"""Maximum distance behind the latest ID at which an ID belongs to an earlier packet (RFC 6864)."""


@inner
def ahead(number, latest):
    """Return by how many an IP ID is ahead of the latest.

    Negative: it is behind. 0: it is the same, or too far away.
    """
    step = (np.int64(number) - latest) & 0xFFFF
    if step < MAX_REORDERING:
        return step
    if step > 0xFFFF - MAX_REORDERING:
        return step - 0x10000
    return np.int64(0)


@inner
def is_counter(begin, end, segments, downlink):
    """Return whether the IDs of one direction's segments in [begin, end) show the order of sending.

    The segments may have overtaken each other.
    """
    steps, small, _ = _count_steps(begin, end, segments, downlink)
    return steps > 0 and small >= MIN_SHARE * steps


@inner
def counter_kind(begin, end, segments, downlink):
    """Return (whether the IDs show the order of sending, whether they count only these segments).

    The segments are those of one direction in [begin, end). The second value holds as far as the
    IDs show it.
    """
    steps, small, next_ones = _count_steps(begin, end, segments, downlink)
    return steps > 0 and small >= MIN_SHARE * steps, steps > 0 and next_ones >= MIN_SHARE * steps


@inner
def _count_steps(begin, end, segments, downlink):
    """Return (steps from one ID to another, small steps, steps of one) of one direction's segments.

    The segments are those in [begin, end).
    """
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
    """Return whether IDs that count up count only this connection's packets.

    Linux does so: it begins at any number and gives a SYN ACK another ID. A sender that counts all
    packets, or those to a host, counts SYN ACKs, too; its next ID is little higher.
    """
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
    """Return how many IDs between those of two Packets of a mobile belong to its other packets.

    `step` is the distance of the two IDs.
    """
    latest, found = packets.ip_id[before], np.int64(0)
    if step > 1:
        for p in range(before + 1, min(after, before + LOOKAHEAD_PER_ID * step)):
            if not packets.downlink[p] and 0 < ahead(packets.ip_id[p], latest) < step:
                found += 1
    return found
