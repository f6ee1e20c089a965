"""The UDP flows that are QUIC's: which packets have a QUIC header, and what it says.

A long header names its version, so it differs from other protocols' packets by itself. A short
header is a byte with one bit that is given; the second one, the fixed bit, may be random once both
ends have agreed to that (RFC 9287). So a short header counts on a flow that had a long header
before; on another port of the same mobile, or to another server from the same port, where the
connection may have moved (RFC 9000, 9 and 9.6); and, if it has the fixed bit, on a port of QUIC's:
such a flow was seen from its middle. A message of ICMP counts if it is about a flow of QUIC's.

The length of a short header's connection ID is not on the wire. It is that of the source connection
ID in the other end's long headers.
"""

from collections.abc import Iterator

import numpy as np

from spark_jobs.capture.hashes import SECOND_MULTIPLIER, address_hashes, hash_combine
from spark_jobs.capture.quic_headers import (
    HASHED_BYTES,
    SHORT_HASHED_BYTES,
    UNREACHABLE,
    is_version,
)
from spark_jobs.capture.reader import PacketBatch, ReadStats
from spark_jobs.capture.record import (
    HAS_PORTS,
    HAS_QUIC,
    HAS_QUIC_DCID,
    HAS_QUIC_LONG,
    NO_QUIC,
    QUIC_FIXED_BIT,
)
from spark_jobs.compiled import compiled, inlined, inner
from spark_jobs.compiled.arrays import find_slot

QUIC_PORTS = (443, 80, 8443)
"""UDP ports on which a short header counts without a long one before."""
MAX_FLOWS = 1 << 22
"""Maximum number of flows that are remembered; then all are forgotten."""
UNKNOWN, EMPTY, SHORT, LONG = range(4)
"""Classes of a connection ID's length: below SHORT_HASHED_BYTES, below HASHED_BYTES, and above."""


def mark_quic(batches: Iterator[PacketBatch], stats: ReadStats) -> Iterator[PacketBatch]:
    """Yield the batches of a file, with QUIC's flags in the rows of QUIC's flows only."""
    keys, lengths, count = np.zeros(2, np.uint64), np.zeros((2, 2), np.uint8), 0
    for batch in batches:
        candidates = int(np.count_nonzero(batch.rows["has"] & HAS_QUIC))
        if candidates:
            if count > MAX_FLOWS:
                keys, lengths, count = np.zeros(2, np.uint64), np.zeros((2, 2), np.uint8), 0
            keys, lengths = _with_room(keys, lengths, count + 3 * candidates)
            hashes = address_hashes(batch.addresses.used_entries)
            count = _mark(batch.rows, hashes, keys, lengths, count)
        yield batch


def _with_room(keys: np.ndarray, lengths: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the table of flows, or a larger copy, with room for `count` flows."""
    if 2 * count <= len(keys):
        return keys, lengths
    size = 1 << (2 * count - 1).bit_length()
    larger = np.zeros(size, np.uint64), np.zeros((size, 2), np.uint8)
    _copy_flows(keys, lengths, *larger)
    return larger


@compiled
def _copy_flows(keys, lengths, new_keys, new_lengths):
    """Copy all flows of a table into an empty one."""
    for i in range(len(keys)):
        if keys[i]:
            slot = find_slot(new_keys, keys[i])
            new_keys[slot] = keys[i]
            for way in range(2):
                new_lengths[slot, way] = lengths[i, way]


@inner
def _flow_key(user, server, user_port, server_port):
    """Return a hash of a flow, never 0; user, server: hashes of the addresses."""
    ports = np.int64(user_port) << 16 | np.int64(server_port)
    return hash_combine(user ^ server * SECOND_MULTIPLIER, ports) | np.uint64(1)


@inlined
def _length_class(length):
    """Return the class of a connection ID of this length."""
    if length >= HASHED_BYTES:
        return LONG
    return SHORT if length >= SHORT_HASHED_BYTES else EMPTY


@compiled
def _mark(rows, addresses, keys, lengths, count):
    """Clear QUIC's flags of the rows, record.ROW[n], that are not QUIC's; return the flows' number.

    addresses: uint64, hashes by address number
    keys: uint64[a power of two], the flows so far by _flow_key, also without the server, and
        without the user's port
    lengths: uint8[.., 2], the length class of the connection IDs of uplink and downlink packets
    """
    for i in range(len(rows)):
        row = rows[i]
        if row.has & HAS_QUIC == 0:
            continue
        user, server = addresses[row.user], addresses[row.server]
        # Routers on the path send messages of ICMP, too, so the server does not matter there.
        any_server = _flow_key(user, np.uint64(0), row.user_port, row.server_port)
        if row.quic_form == UNREACHABLE:
            if keys[find_slot(keys, any_server)]:
                row.has |= HAS_PORTS
            else:
                row.has &= NO_QUIC & ~HAS_PORTS
            continue
        slot = find_slot(keys, _flow_key(user, server, row.user_port, row.server_port))
        any_port = find_slot(keys, _flow_key(user, server, 0, row.server_port))
        way, is_long = 1 if row.downlink else 0, row.has & HAS_QUIC_LONG != 0
        is_known = keys[slot] != 0
        may_have_moved = keys[any_port] != 0 or keys[find_slot(keys, any_server)] != 0
        is_plain = row.has & QUIC_FIXED_BIT != 0 or (is_long and row.quic_version == 0)
        is_named = is_long and is_version(np.int64(row.quic_version))
        is_quic = is_known or is_named or (may_have_moved and not is_long)
        if not (is_quic or (is_plain and row.server_port in QUIC_PORTS)):
            row.has &= NO_QUIC
        elif is_long:
            keys[slot] = _flow_key(user, server, row.user_port, row.server_port)
            lengths[slot, 1 - way] = _length_class(row.quic_scid_length)
            any_port = find_slot(keys, _flow_key(user, server, 0, row.server_port))
            keys[any_port] = _flow_key(user, server, 0, row.server_port)
            lengths[any_port, 1 - way] = lengths[slot, 1 - way]
            port = find_slot(keys, any_server)
            keys[port], lengths[port, 1 - way] = any_server, lengths[slot, 1 - way]
            count += 0 if is_known else 3
        elif row.has & HAS_QUIC_DCID == 0:
            if not is_known:
                slot = any_port if keys[any_port] else find_slot(keys, any_server)
            length = lengths[slot, way]
            if length == SHORT:
                row.quic_dcid = row.quic_short_dcid
            if length >= SHORT and row.quic_dcid:
                row.has |= HAS_QUIC_DCID
    return count
