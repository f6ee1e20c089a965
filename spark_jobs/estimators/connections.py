"""Which packets form one TCP connection.

A connection is a 5-tuple from its SYN on. Departures from a plain 5-tuple key: ports are used
again, so a SYN may begin another connection; and packets whose SYN was not seen form a partial
one.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators.tcp import ACK, FIN, RST, SYN

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


@inner
def _opens_another(flags, same_syn, silence, closed, carried_data):
    """Whether a packet on a known 5-tuple begins another connection."""
    if silence > IDLE_TIMEOUT_US:
        return True
    if not flags & SYN or flags & ACK or same_syn:
        return False
    return closed or carried_data or silence > REUSE_AFTER_US


@compiled
def assign_connections(packets):
    """The connection of every packet, of Packets.

    Returns (connection int32[M], -1 where there is none; how many there are). Connections are
    numbered by user, then by their first packet.
    """
    n = len(packets.ts)
    ts, seq, flags, downlink = packets.ts, packets.seq, packets.tcp_flags, packets.downlink
    server, user_port, server_port = packets.server, packets.user_port, packets.server_port
    connection = np.full(n, -1, np.int32)
    begins, latest = np.empty(n, np.int64), np.empty(n, np.int64)
    syn = np.empty(n, np.int64)  # the first SYN's packet, -1: none yet
    closed, carried_data = np.empty(n, np.bool_), np.empty(n, np.bool_)
    slots = np.zeros(2, np.int32)
    count = 0
    for user in range(len(packets.first) - 1):
        size = 2
        while size < 2 * (packets.first[user + 1] - packets.first[user]):
            size *= 2
        if size > len(slots):
            slots = np.zeros(size, np.int32)
        slots[:size] = 0
        for i in range(packets.first[user], packets.first[user + 1]):
            if not packets.is_tcp[i]:
                continue
            slot = np.int64(hash_of(server[i], user_port[i], server_port[i])) & (size - 1)
            while slots[slot]:
                known = begins[slots[slot] - 1]
                if (
                    server[known] == server[i]
                    and user_port[known] == user_port[i]
                    and server_port[known] == server_port[i]
                ):
                    break
                slot = (slot + 1) & (size - 1)
            c = slots[slot] - 1
            if c < 0 or _opens_another(
                flags[i],
                syn[c] >= 0 and seq[syn[c]] == seq[i] and downlink[syn[c]] == downlink[i],
                ts[i] - ts[latest[c]],
                closed[c],
                carried_data[c],
            ):
                c = count
                count += 1
                slots[slot] = count
                begins[c] = i
                syn[c] = -1
                closed[c] = carried_data[c] = False
            connection[i] = c
            latest[c] = i
            if flags[i] & SYN and not flags[i] & ACK and syn[c] < 0:
                syn[c] = i
            if flags[i] & (FIN | RST):
                closed[c] = True
            if packets.payload_len[i]:
                carried_data[c] = True
    return connection, count
