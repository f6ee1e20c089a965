"""Which packets form one TCP connection.

A connection is a 5-tuple from its SYN on. Departures from a plain 5-tuple key: ports are used
again, so a SYN may begin another connection; packets whose SYN was not seen form a partial one; and
packets that the ends of a connection could not have sent (see `window`) are counted and are no part
of it. Where several SYNs or SYN ACKs have different initial sequence numbers, the one counts that
the ends go on with, because anybody can forge a SYN.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators import window
from spark_jobs.estimators.sequence import NONE
from spark_jobs.estimators.tcp import ACK, FIN, RST, SYN, seq_diff

REUSE_AFTER_US = 60_000_000
"""Silence after which a SYN with another initial sequence number opens another connection though
the old one was not seen to close: the usual TIME-WAIT."""

IDLE_TIMEOUT_US = 7_440_000_000
"""Silence after which any packet belongs to another connection: the least time for
which middleboxes keep an idle connection, 2 h 4 min (RFC 5382, REQ-5)."""


@inner
def hash_of(server, user_port, server_port):
    """uint64, of a 5-tuple of one user and protocol."""
    ports = np.uint64(user_port) << np.uint64(16) | np.uint64(server_port)
    h = np.uint64(server) * np.uint64(0xC2B2AE3D27D4EB4F) ^ ports * np.uint64(0x9E3779B97F4A7C15)
    return (h ^ h >> np.uint64(29)) * np.uint64(0xD6E8FEB86659FD93) >> np.uint64(32)


LONG_AGO = np.int64(-(2**62))

STAYS, OPENS, OUTSIDE = range(3)
"""What a packet is: of the connection, another one's first, or nobody's."""
UNDECIDED, NEW, OLD = range(3)
"""Which numbers the ends go on with: those of a SYN, or those that they had."""

PAIR = np.dtype(
    [
        ("first", "i8"),
        ("latest", "i8"),
        ("latest_ts", "i8"),
        ("connection", "i8"),
        ("began", "i8"),
        ("closed", "?"),
        ("carried_data", "?"),
    ],
    align=True,
)
"""A 5-tuple: its first packet, the last so far, and when the one before passed (µs); its present
connection, -1 before there is one, that one's first packet, and whether that was seen to close, or
carried data."""


@compiled
def assign_connections(packets):
    """The connection of every packet, of Packets.

    Returns (connection int32[M], -1 where there is none; how many there are; outside bool[M]:
    segments that no end of their connection could have sent). Connections are numbered by user,
    then by their first packet.
    """
    n = len(packets.ts)
    connection, following = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    outside = np.zeros(n, np.bool_)
    slots, pairs = np.zeros(2, np.int32), np.zeros(2, PAIR)
    ends = np.zeros((2, 2), window.END)
    ts, flags, seq, ack = packets.ts, packets.tcp_flags, packets.seq, packets.ack
    payload_len, downlink, room = packets.payload_len, packets.downlink, packets.window
    stamped, stamp = packets.has_timestamps, packets.ts_val
    count = np.int64(0)
    for user in range(len(packets.first) - 1):
        begin, end = packets.first[user], packets.first[user + 1]
        size = 2
        while size < 2 * (end - begin):
            size *= 2
        if size > len(slots):
            slots = np.zeros(size, np.int32)
        slots[:size] = 0
        if end - begin > len(pairs):
            pairs = np.zeros(end - begin, PAIR)
        found = _pair(packets, (begin, end), slots[:size], pairs, connection, following)
        if found > len(ends):
            ends = np.zeros((2 * found, 2), window.END)
        for i in range(begin, end):
            if connection[i] < 0:
                continue
            pair = pairs[connection[i]]
            up, down = ends[connection[i], 0], ends[connection[i], 1]
            own, other = (down, up) if downlink[i] else (up, down)
            plain = False
            if ts[i] - pair.latest_ts <= IDLE_TIMEOUT_US:  # else also where there was none
                segment = window.Segment(
                    flags[i],
                    seq[i],
                    ack[i],
                    np.int64(room[i]),
                    np.int64(payload_len[i]) + (flags[i] & FIN != 0),
                    stamped[i],
                    stamp[i],
                    ts[i],
                )
                plain = window.goes_on(segment, own, other)
            if plain:
                pair.closed |= flags[i] & FIN != 0
                pair.carried_data |= payload_len[i] > 0
            else:
                fate = _fate(packets, i, pair, own, following)
                if fate == OPENS:
                    pair.connection, pair.began = count, i
                    pair.closed = pair.carried_data = False
                    window.begin(own)
                    window.begin(other)
                    count += 1
                outside[i] = fate == OUTSIDE or not _belongs(
                    packets, i, pair, (own, other), following, outside
                )
            connection[i] = pair.connection
            pair.latest_ts = ts[i]
    return connection, count, outside


@inner
def _pair(packets, span, slots, pairs, pair_of, following):
    """Number the 5-tuples of a user's packets, from span[0] to span[1], into pair_of, and tell of
    each packet which one follows it. Returns how many there are. slots: int32[a power of two],
    zeros."""
    server, user_port, server_port = packets.server, packets.user_port, packets.server_port
    mask, count = len(slots) - 1, 0
    for i in range(span[0], span[1]):
        if not packets.is_tcp[i]:
            continue
        slot = np.int64(hash_of(server[i], user_port[i], server_port[i])) & mask
        while slots[slot]:
            known = pairs[slots[slot] - 1].first
            if (
                server[known] == server[i]
                and user_port[known] == user_port[i]
                and server_port[known] == server_port[i]
            ):
                break
            slot = (slot + 1) & mask
        if slots[slot]:
            following[pairs[slots[slot] - 1].latest] = i
        else:
            pairs[count].first = i
            pairs[count].connection, pairs[count].latest_ts = -1, LONG_AGO
            count += 1
            slots[slot] = count
        pair_of[i] = slots[slot] - 1
        pairs[slots[slot] - 1].latest = i
    return count


@inner
def _fate(packets, i, pair, own, following):
    """STAYS, OPENS or OUTSIDE: what packet i is, as far as its SYN flag and the silence before it
    tell."""
    silence = packets.ts[i] - pair.latest_ts
    if pair.connection < 0 or silence > IDLE_TIMEOUT_US:
        return OPENS
    if packets.tcp_flags[i] & (SYN | ACK) != SYN or _is_again(packets, i, own):
        return STAYS
    known = own.top != NONE
    if known and _goes_on(packets, i, own, following) == OLD:
        return OUTSIDE
    reused = pair.closed or pair.carried_data or silence > REUSE_AFTER_US
    return OPENS if reused or (known and not own.opened) else STAYS


@inner
def _belongs(packets, i, pair, ends, following, outside):
    """Whether packet i is of its 5-tuple's connection, which then goes on with it. ends: its
    sender's END and the other one."""
    own, other = ends
    flags = packets.tcp_flags[i]
    opening = flags & (SYN | ACK)
    if opening == SYN:
        if not _is_again(packets, i, own):
            window.begin(own)
    elif opening == SYN | ACK and own.opened and packets.seq[i] != np.uint32(own.first):
        if _goes_on(packets, i, own, following) != NEW:
            return False
        _withdraw(packets, i, pair.began, following, outside)
        window.begin(own)
    elif own.opened or opening != SYN | ACK or not _is_again(packets, i, own):
        verdict = window.is_acceptable(packets, i, own, other, following)
        if verdict == window.OUTSIDE:
            return False
        if verdict == window.ELSEWHERE and own.acked == NONE:
            _withdraw(packets, i, pair.began, following, outside)  # nobody took it
            window.begin(own)
            if not other.sent:
                window.begin(other)
    window.take(packets, i, own, other)
    pair.closed |= flags & (FIN | RST) != 0
    pair.carried_data |= packets.payload_len[i] > 0
    return True


@inner
def _is_again(packets, i, own):
    """Whether a SYN or SYN ACK has the number of one before, or the number just below all that was
    named of its stream: then it comes late, from a capture of two clocks."""
    if own.opened:
        return packets.seq[i] == np.uint32(own.first)
    return own.low != NONE and window.position(packets.seq[i], own) + 1 == own.low


@inner
def _goes_on(packets, i, own, following):
    """Which numbers the ends go on with, those of packet i, a SYN or SYN ACK, or those that its
    sender, `own`, had: NEW, OLD or UNDECIDED.

    What the sender of a SYN sends behind its SYN ACK tells first, for a server may answer every
    SYN; then the SYN ACK; then the first number that lies near one of them. That the SYN is
    challenged (RFC 5961, 4) tells where no RST follows.
    """
    high = max(own.top, own.edge)
    low = own.first if own.acked == NONE else own.acked - own.room
    if low == NONE:
        low = own.low
    start = packets.seq[i] + np.uint32(1)
    likely, answered, challenged = UNDECIDED, False, False
    j = following[i]
    for _ in range(window.MOST_LOOKED):
        if j < 0 or packets.ts[j] - packets.ts[i] > IDLE_TIMEOUT_US:
            break
        flags, mine = packets.tcp_flags[j], packets.downlink[j] == packets.downlink[i]
        number = packets.seq[j] if mine else packets.ack[j]
        above = seq_diff(number, start)
        old = low <= window.position(number, own) <= (high if mine else own.top)
        taken = 0 <= above <= np.int64(packets.payload_len[i])
        if mine and flags & RST:
            challenged = False
        elif not mine and flags & SYN:
            if taken:
                likely, answered = NEW, True
            elif old and likely == UNDECIDED:
                likely = OLD
        elif mine and not flags & SYN:
            if taken and (answered or not old):
                return NEW
            if old and answered:
                return OLD
            if likely == UNDECIDED:
                likely = OLD if old else NEW if 0 <= above <= window.NEAR else UNDECIDED
        elif not mine and flags & ACK:
            if likely == UNDECIDED and not old and 0 <= above <= window.NEAR:
                likely = NEW
                if packets.tcp_flags[i] & ACK:
                    return NEW
            elif old and not flags & RST:
                challenged = True
                if packets.tcp_flags[i] & ACK and likely == UNDECIDED:
                    likely = OLD
        j = following[j]
    return OLD if likely == UNDECIDED and challenged else likely


@inner
def _withdraw(packets, i, began, following, outside):
    """What packet i's sender sent before it in this connection is none of its packets."""
    j = began
    while j != i:
        if packets.downlink[j] == packets.downlink[i]:
            outside[j] = True
        j = np.int64(following[j])
