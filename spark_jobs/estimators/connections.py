"""Assignment of packets to TCP connections.

A connection is a 5-tuple from its SYN on. There are three departures from a plain 5-tuple key.
Ports are reused, so a SYN may begin another connection. Packets whose SYN was not seen form a
partial connection. Packets that the ends of a connection could not have sent (see `window`) are
counted and are not part of it. If several SYNs or SYN ACKs have different initial sequence numbers,
the one with which the ends continue counts, because anybody can forge a SYN.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators import window
from spark_jobs.estimators.sequence import NONE
from spark_jobs.estimators.tcp import ACK, FIN, RST, SYN, seq_diff

REUSE_AFTER_US = 60_000_000
"""Silence after which a SYN opens another connection though the old one was not seen to close.

This is the usual TIME-WAIT. The SYN has another initial sequence number.
"""

IDLE_TIMEOUT_US = 7_440_000_000
"""Silence after which any packet belongs to another connection.

It is the minimum time for which middleboxes keep an idle connection, 2 h 4 min (RFC 5382, REQ-5).
"""


@inner
def hash_server_and_ports(server, user_port, server_port):
    """Return a uint64 hash of a 5-tuple of one user and protocol."""
    ports = np.uint64(user_port) << np.uint64(16) | np.uint64(server_port)
    h = np.uint64(server) * np.uint64(0xC2B2AE3D27D4EB4F) ^ ports * np.uint64(0x9E3779B97F4A7C15)
    return (h ^ h >> np.uint64(29)) * np.uint64(0xD6E8FEB86659FD93) >> np.uint64(32)


LONG_AGO = np.int64(-(2**62))
"""Time before all packets (µs)."""

CONTINUES, OPENS, OUT_OF_WINDOW = range(3)
"""Verdicts on a packet: it continues the connection, opens another one, or is out of window."""
UNDECIDED, NEW, OLD = range(3)
"""Numbers with which the ends continue: those of a new SYN, or the old ones."""

FIVE_TUPLE = np.dtype(
    [
        ("ports", "u8"),
        ("server", "i4"),
        ("latest_packet", "i4"),
        ("latest_ts", "i8"),
        ("connection", "i8"),
        ("first_kept", "i8", (2,)),
        ("closed", "?"),
        ("carried_data", "?"),
    ],
    align=True,
)
"""A 5-tuple and its present connection.

ports, server: the user's port and the server's as one number, and the number of the server
latest_packet: its last packet so far
latest_ts: time at which the packet before the present one passed (µs)
connection: number of its present connection; -1 before there is one
first_kept: first packet of that connection after those that were rejected, of uplink and downlink
closed: that connection was seen to close
carried_data: that connection carried data
"""


@compiled
def assign_connections(packets):
    """Return the connection of every packet, the number of connections, and packets out of window.

    They are int32[M], -1 if there is none; a number; and bool[M], segments that no end of their
    connection could have sent. Connections are numbered by user, then by their first packet.
    """
    n = len(packets.ts)
    connection, next_packet = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    out_of_window = np.zeros(n, np.bool_)
    slots, five_tuples = np.zeros(2, np.int32), np.zeros(2, FIVE_TUPLE)
    ends = np.zeros((2, 2), window.END)
    ts, flags, seq, ack = packets.ts, packets.tcp_flags, packets.seq, packets.ack
    payload_len, downlink, window_field = packets.payload_len, packets.downlink, packets.window
    has_timestamps, ts_val = packets.has_timestamps, packets.ts_val
    count = np.int64(0)
    for user in range(len(packets.first) - 1):
        begin, end = packets.first[user], packets.first[user + 1]
        size = 2
        while size < 2 * (end - begin):
            size *= 2
        if size > len(slots):
            slots = np.zeros(size, np.int32)
        slots[:size] = 0
        if end - begin > len(five_tuples):
            five_tuples = np.zeros(end - begin, FIVE_TUPLE)
        five_tuple_count = _number_five_tuples(
            packets, (begin, end), slots[:size], five_tuples, connection, next_packet
        )
        if five_tuple_count > len(ends):
            ends = np.zeros((2 * five_tuple_count, 2), window.END)
        for i in range(begin, end):
            if connection[i] < 0:
                continue
            five_tuple = five_tuples[connection[i]]
            up, down = ends[connection[i], 0], ends[connection[i], 1]
            sender, receiver = (down, up) if downlink[i] else (up, down)
            is_accepted = False
            if ts[i] - five_tuple.latest_ts <= IDLE_TIMEOUT_US:  # also false for the first packet
                segment = window.Segment(
                    flags[i],
                    seq[i],
                    ack[i],
                    np.int64(window_field[i]),
                    np.int64(payload_len[i]) + (flags[i] & FIN != 0),
                    has_timestamps[i],
                    ts_val[i],
                    ts[i],
                )
                is_accepted = window.accept_plain(segment, sender, receiver)
            if is_accepted:
                five_tuple.closed |= flags[i] & FIN != 0
                five_tuple.carried_data |= payload_len[i] > 0
            else:
                verdict = _classify(packets, i, five_tuple, (sender, receiver), next_packet)
                if verdict == OPENS:
                    five_tuple.connection, five_tuple.first_kept[:] = count, i
                    five_tuple.closed = five_tuple.carried_data = False
                    window.clear_end(sender)
                    window.clear_end(receiver)
                    count += 1
                out_of_window[i] = verdict == OUT_OF_WINDOW or not _accept(
                    packets, i, five_tuple, (sender, receiver), next_packet, out_of_window
                )
            connection[i] = five_tuple.connection
            five_tuple.latest_ts = ts[i]
    return connection, count, out_of_window


@inner
def _number_five_tuples(packets, span, slots, five_tuples, five_tuple_of, next_packet):
    """Number the 5-tuples of a user's packets, and return how many there are.

    The packets are those from span[0] to span[1]. Writes each packet's number to five_tuple_of, and
    the next packet of its 5-tuple to next_packet. slots: int32[a power of two], zeros.
    """
    server, user_port, server_port = packets.server, packets.user_port, packets.server_port
    mask, count = len(slots) - 1, 0
    for i in range(span[0], span[1]):
        if not packets.is_tcp[i]:
            continue
        ports = np.uint64(user_port[i]) << np.uint64(16) | np.uint64(server_port[i])
        slot = np.int64(hash_server_and_ports(server[i], user_port[i], server_port[i])) & mask
        while slots[slot]:
            five_tuple = five_tuples[slots[slot] - 1]
            if five_tuple.ports == ports and five_tuple.server == server[i]:
                break
            slot = (slot + 1) & mask
        if slots[slot]:
            next_packet[five_tuples[slots[slot] - 1].latest_packet] = i
        else:
            five_tuple = five_tuples[count]
            five_tuple.ports, five_tuple.server = ports, server[i]
            five_tuple.connection, five_tuple.latest_ts = -1, LONG_AGO
            count += 1
            slots[slot] = count
        five_tuple_of[i] = slots[slot] - 1
        five_tuples[slots[slot] - 1].latest_packet = i
    return count


@inner
def _classify(packets, i, five_tuple, ends, next_packet):
    """Return whether packet i continues the connection, opens another one, or is out of window.

    The verdict rests on its SYN flag and on the silence before it, as far as these decide it. Some
    devices always use the same initial sequence number. ends: its sender's END and its receiver's.
    """
    sender, receiver = ends
    silence = packets.ts[i] - five_tuple.latest_ts
    if five_tuple.connection < 0 or silence > IDLE_TIMEOUT_US:
        return OPENS
    if packets.tcp_flags[i] & (SYN | ACK) != SYN:
        return CONTINUES
    if _is_repeated_syn(packets, i, sender):
        has_ended = max(sender.fin_end, receiver.fin_end) < window.NO_FIN
        has_ended |= five_tuple.carried_data and silence > REUSE_AFTER_US
        return OPENS if has_ended else CONTINUES
    has_sent = sender.highest != NONE
    if has_sent and _isn_in_use(packets, i, sender, next_packet) == OLD:
        return OUT_OF_WINDOW
    reused = five_tuple.closed or five_tuple.carried_data or silence > REUSE_AFTER_US
    return OPENS if reused or (has_sent and not sender.syn_seen) else CONTINUES


@inner
def _accept(packets, i, five_tuple, ends, next_packet, out_of_window):
    """Return whether packet i belongs to its 5-tuple's connection; if so, update the ends with it.

    ends: its sender's END and its receiver's.
    """
    sender, receiver = ends
    flags = packets.tcp_flags[i]
    syn_flags = flags & (SYN | ACK)
    if syn_flags == SYN:
        if not _is_repeated_syn(packets, i, sender):
            window.clear_end(sender)
    elif syn_flags == SYN | ACK and sender.syn_seen and packets.seq[i] != np.uint32(sender.isn):
        if _isn_in_use(packets, i, sender, next_packet) != NEW:
            return False
        _reject_earlier(packets, i, five_tuple.first_kept, next_packet, out_of_window)
        window.clear_end(sender)
    elif sender.syn_seen or syn_flags != SYN | ACK or not _is_repeated_syn(packets, i, sender):
        verdict = window.acceptability(packets, i, sender, receiver, next_packet)
        if verdict == window.OUT_OF_WINDOW:
            return False
        if verdict == window.MOVED and sender.acked == NONE:
            # The other end acknowledged none of the sender's earlier packets.
            _reject_earlier(packets, i, five_tuple.first_kept, next_packet, out_of_window)
            window.clear_end(sender)
            if not receiver.has_sent:
                window.clear_end(receiver)
    window.accept(packets, i, sender, receiver)
    five_tuple.closed |= flags & (FIN | RST) != 0
    five_tuple.carried_data |= packets.payload_len[i] > 0
    return True


@inner
def _is_repeated_syn(packets, i, sender):
    """Return whether a SYN or SYN ACK repeats an earlier one, or comes late.

    It comes late if its number is just below all numbers of its stream; this happens in a capture
    of two clocks.
    """
    if sender.syn_seen:
        return packets.seq[i] == np.uint32(sender.isn)
    return (
        sender.lowest != NONE
        and window.stream_position(packets.seq[i], sender) + 1 == sender.lowest
    )


@inner
def _isn_in_use(packets, i, sender, next_packet):
    """Return the numbers with which the ends continue: NEW, OLD or UNDECIDED.

    NEW: those of packet i, a SYN or SYN ACK. OLD: those that its sender had.

    The evidence, strongest first: the segments that the sender of a SYN sends after its SYN ACK,
    because a server may answer every SYN; the SYN ACK; the first number near one of the two. A
    challenge ACK (RFC 5961, 4) to the SYN is evidence if no RST follows.
    """
    high = max(sender.highest, sender.right_edge)
    low = sender.isn if sender.acked == NONE else sender.acked - sender.max_window
    if low == NONE:
        low = sender.lowest
    start = packets.seq[i] + np.uint32(1)
    guess, synack_seen, challenged = UNDECIDED, False, False
    j = next_packet[i]
    for _ in range(window.MAX_LOOKAHEAD):
        if j < 0 or packets.ts[j] - packets.ts[i] > IDLE_TIMEOUT_US:
            break
        flags, same_direction = packets.tcp_flags[j], packets.downlink[j] == packets.downlink[i]
        number = packets.seq[j] if same_direction else packets.ack[j]
        distance = seq_diff(number, start)
        matches_old = (
            low
            <= window.stream_position(number, sender)
            <= (high if same_direction else sender.highest)
        )
        matches_new = 0 <= distance <= np.int64(packets.payload_len[i])
        if same_direction and flags & RST:
            challenged = False
        elif not same_direction and flags & SYN:
            if matches_new:
                guess, synack_seen = NEW, True
            elif matches_old and guess == UNDECIDED:
                guess = OLD
        elif same_direction and not flags & SYN:
            if matches_new and (synack_seen or not matches_old):
                return NEW
            if matches_old and synack_seen:
                return OLD
            if guess == UNDECIDED:
                guess = OLD if matches_old else NEW if 0 <= distance <= window.NEAR else UNDECIDED
        elif not same_direction and flags & ACK:
            if guess == UNDECIDED and not matches_old and 0 <= distance <= window.NEAR:
                guess = NEW
                if packets.tcp_flags[i] & ACK:
                    return NEW
            elif matches_old and not flags & RST:
                challenged = True
                if packets.tcp_flags[i] & ACK and guess == UNDECIDED:
                    guess = OLD
        j = next_packet[j]
    return OLD if guess == UNDECIDED and challenged else guess


@inner
def _reject_earlier(packets, i, first_kept, next_packet, out_of_window):
    """Mark packets that packet i's sender sent earlier in this connection as out of window."""
    way = 1 if packets.downlink[i] else 0
    j = first_kept[way]
    while j != i:
        if packets.downlink[j] == packets.downlink[i]:
            out_of_window[j] = True
        j = np.int64(next_packet[j])
    first_kept[way] = i
