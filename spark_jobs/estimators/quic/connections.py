"""Assignment of QUIC's packets to connections, by addresses, ports and connection IDs.

A client may have several connections from one port, and a connection keeps its connection IDs when
its port changes (RFC 9000, 9). So the destination connection ID decides, where it is known. An end
may change it for one that nobody saw. Such a packet belongs to the latest connection of its
addresses and ports. If only the server's address is new, the connection went on to the address that
its server prefers (RFC 9000, 9.6): a new one would begin with an Initial. If the mobile's port is
new, it is the beginning of a connection seen from its middle.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.compiled.arrays import find_slot
from spark_jobs.estimators.quic.packets import (
    COALESCED_CUT,
    HANDSHAKE,
    INITIAL,
    ONE_RTT,
    UNREACHABLE,
    VERSION_NEGOTIATION,
    ZERO_RTT,
)

SILENCE_US = 600_000_000
"""Silence after which a connection has ended: 10 minutes.

NATs keep UDP's mappings for two to five minutes (RFC 4787, 4.3), most clients ask for an idle
timeout of half a minute (RFC 9000, 10.1).
"""
NOBODY = np.int32(-1)
UPLINK, DOWNLINK, FIVE_TUPLE, PORTS = range(4)
"""Kinds of keys: a connection ID of packets in a direction; addresses and ports; ports only."""

STATE = np.dtype(
    [
        ("latest_ts", "i8"),
        ("server", "i4"),
        ("server_port", "u2"),
        ("dcid", "u4", (2,)),
        ("begun", "?"),
        ("negotiates", "?"),
        ("completed", "?"),
    ],
    align=True,
)
"""A connection, as far as its packets were seen.

latest_ts: time of its last packet (µs)
server, server_port: of its latest packet
dcid: latest destination connection ID of uplink and of downlink packets
begun: its first packet was seen
negotiates: the server asked for another version, and nothing came since
completed: the client sent more than first flights
"""


@compiled
def assign_quic_connections(packets):
    """Return the connection of each of QuicPackets, the number of them, and their migrations.

    They are int32[Q], NOBODY if there is none; a number; and int64[C], changes of the mobile's
    port. Connections are numbered by user, then by their first packet.
    """
    n = len(packets.ts)
    out, state = np.full(n, NOBODY, np.int32), np.zeros(n, STATE)
    migrations = np.zeros(n, np.int64)
    keys, owners = np.zeros(2, np.uint64), np.zeros(2, np.int32)
    count = 0
    for user in range(len(packets.first) - 1):
        begin, end = packets.first[user], packets.first[user + 1]
        size = 2
        while size < 8 * (end - begin):
            size *= 2
        if size > len(keys):
            keys, owners = np.zeros(size, np.uint64), np.zeros(size, np.int32)
        table = keys[:size]
        table[:] = 0
        for i in range(begin, end):
            if packets.form[i] == UNREACHABLE:
                out[i] = _owner(table, owners, _key(packets, i, PORTS))
                continue
            c, moves = _find(packets, i, table, owners, state)
            if c == NOBODY:
                c = np.int32(count)
                count += 1
                state[c].begun = _may_begin(packets, i)
            migrations[c] += moves
            _update(packets, i, c, table, owners, state[c])
            out[i] = c
    return out, count, migrations[:count].copy()


@inner
def _find(packets, i, keys, owners, state):
    """Return the connection of packet i, NOBODY if it begins one, and whether the packet moves it.

    A connection moves to addresses and ports that no connection had before.
    """
    way = 1 if packets.downlink[i] else 0
    latest = _owner(keys, owners, _key(packets, i, FIVE_TUPLE))
    if latest != NOBODY and not _is_alive(packets, i, state[latest]):
        latest = NOBODY
    if not packets.has_dcid[i] or packets.dcid[i] == 0:
        return _at_port(packets, i, latest, keys, owners, state), False
    if latest != NOBODY and state[latest].dcid[way] == packets.dcid[i]:
        return latest, False
    owner = _owner(keys, owners, _cid_key(packets.dcid[i], way))
    if owner != NOBODY and _is_alive(packets, i, state[owner]):
        same_server = (
            state[owner].server == packets.server[i]
            and state[owner].server_port == packets.server_port[i]
        )
        if same_server:
            return owner, latest == NOBODY
    if latest != NOBODY and _may_begin(packets, i) and not state[latest].negotiates:
        if packets.scid[i]:
            is_same = _owner(keys, owners, _cid_key(packets.scid[i], DOWNLINK)) == latest
        else:
            is_same = packets.coalesced[i] & COALESCED_CUT != 0
        if state[latest].completed or not is_same:
            return NOBODY, False
    return _at_port(packets, i, latest, keys, owners, state), False


@inner
def _at_port(packets, i, latest, keys, owners, state):
    """Return the latest connection, or the one with packet i's port that goes on elsewhere."""
    if latest != NOBODY or packets.form[i] != ONE_RTT:
        return latest
    other = _owner(keys, owners, _key(packets, i, PORTS))
    is_it = other != NOBODY and state[other].begun and _is_alive(packets, i, state[other])
    return other if is_it else NOBODY


@inner
def _is_alive(packets, i, state):
    """Return whether a connection of this STATE may have packet i."""
    return packets.ts[i] - state.latest_ts <= SILENCE_US


@inner
def _may_begin(packets, i):
    """Return whether packet i may be a client's first one: it needs no key of the server's."""
    if packets.downlink[i] or packets.coalesced[i] & (1 << HANDSHAKE | 1 << ONE_RTT):
        return False
    return packets.form[i] == INITIAL or packets.form[i] == ZERO_RTT


@inner
def _update(packets, i, c, keys, owners, state):
    """Update the STATE of connection c with its packet i."""
    way = 1 if packets.downlink[i] else 0
    state.latest_ts, state.server = packets.ts[i], packets.server[i]
    state.server_port = packets.server_port[i]
    _put(keys, owners, _key(packets, i, FIVE_TUPLE), c)
    _put(keys, owners, _key(packets, i, PORTS), c)
    form = packets.form[i]
    if packets.has_dcid[i] and packets.dcid[i]:
        state.dcid[way] = packets.dcid[i]
        _put(keys, owners, _cid_key(packets.dcid[i], way), c)
    if packets.has_version[i] and packets.scid[i]:
        _put(keys, owners, _cid_key(packets.scid[i], 1 - way), c)
    if packets.downlink[i]:
        if form == VERSION_NEGOTIATION:
            state.negotiates = not state.completed
        elif form == INITIAL or form == HANDSHAKE or form == ONE_RTT:
            state.negotiates = False
    else:
        state.completed |= form == HANDSHAKE or form == ONE_RTT


@inner
def _cid_key(cid, way):
    """Return the key of a connection ID of packets in a direction."""
    return np.uint64(cid) << np.uint64(3) | np.uint64(way) << np.uint64(1) | np.uint64(1)


@inner
def _key(packets, i, kind):
    """Return the key of packet i's ports, with its server if `kind` is FIVE_TUPLE."""
    ports = np.uint64(packets.user_port[i]) << np.uint64(16) | np.uint64(packets.server_port[i])
    key = ports << np.uint64(3) | np.uint64(kind) << np.uint64(1) | np.uint64(1)
    server = np.uint64(packets.server[i]) if kind == FIVE_TUPLE else np.uint64(0)
    return key | server << np.uint64(35)


@inner
def _owner(keys, owners, key):
    """Return the connection of a key, or NOBODY."""
    slot = find_slot(keys, key)
    return owners[slot] if keys[slot] else NOBODY


@inner
def _put(keys, owners, key, c):
    """Give a key to connection c."""
    slot = find_slot(keys, key)
    keys[slot] = key
    owners[slot] = c
