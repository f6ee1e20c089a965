"""Packets that hold several segments, split into the segments that were on the wire.

A network card or its driver merges segments before the monitor captures them (LRO, GRO), or would
split them only after the monitor (TSO, GSO).

A packet is merged if it carries more than the other end allows (MSS; RFC 9293, 3.7.1). If the MSS
was not seen, it is merged if it is larger than Ethernet's largest frames. The segments' size is the
size that both ends announced, less options (RFC 6691). The exception is a sender whose path carries
less: then most merged packets are whole multiples of the largest packet that is not merged, and
that size is used; or all merged packets are multiples of a size, also if no single segment was
seen.
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.compiled.arrays import gather
from spark_jobs.estimators.records import Packets
from spark_jobs.estimators.sequence import downlink_bytes_before
from spark_jobs.estimators.tcp import CWR, FIN, PSH, RST, SYN

ETHERNET_MTU = 1500
"""B: Ethernet's usual MTU."""
MAX_FRAME = 2000
"""B: the largest Ethernet frame, with tags and labels (IEEE 802.3as)."""
MIN_ANNOUNCED_MSS = 88
"""B: Linux's minimum MSS; no sender uses a smaller one that is announced."""
MAX_SEGMENTS = 65_535
"""Linux's GSO_MAX_SEGS: a packet with more segments is not a merged packet."""
MIN_MULTIPLES = 3
"""Number of merged packets from which on what all their lengths are multiples of shows the size."""
DEFAULT_MSS = 536
"""B: RFC 9293, 3.7.1; smaller packets do not show the size of a sender's full segments."""
HEADERS_IPV4, HEADERS_IPV6 = 40, 60
"""B: IP and TCP headers without options."""


class Wire(NamedTuple):
    """Packets as they were on the wire."""

    packets: Packets
    connection: np.ndarray
    """int32[M]: the connection of each packet; -1 if there is none."""
    merged: np.ndarray
    """int64[C]: number of a connection's segments that the capture had merged."""


def on_the_wire(packets, connection, count, server_ipv6):
    """Return the Wire of Packets, their connections int32[M] and the number of connections.

    server_ipv6: bool[servers]. Each segment has its packet's frame and time, its own sequence
    number and length, and its own headers. IP IDs count up if they are not 0. Only the last segment
    has PSH and FIN, only the first one CWR (RFC 3168). SYNs and RSTs stay as they are.
    """
    announced, largest = _sizes(packets, connection, count)
    limit = announced[:, ::-1]
    merged = np.where(limit > 0, largest["payload"] > limit, largest["ip_len"] > MAX_FRAME)
    if not merged.any():
        return Wire(packets, connection, np.zeros(count, np.int64))
    headers = np.where(server_ipv6, HEADERS_IPV6, HEADERS_IPV4)[packets.server]
    segment_size = _segment_sizes(packets, connection, headers, announced, merged)
    piece_size = _piece_sizes(packets, connection, headers, segment_size)
    return _split(packets, connection, count, piece_size)


LARGEST_SEGMENT = np.dtype([("payload", "i8"), ("ip_len", "i8")])
"""Sizes of the largest data segment: payload and IP packet (B)."""


@compiled
def _sizes(packets, connection, count):
    """Return (MSS that either end announced, LARGEST_SEGMENT of what it sent), [C, 2] each.

    The MSS is int64; 0 if it was not seen.
    """
    downlink, flags, mss = packets.downlink, packets.tcp_flags, packets.mss
    payload_len, ip_len = packets.payload_len, packets.ip_len
    announced = np.zeros((count, 2), np.int64)
    largest = np.zeros((count, 2), LARGEST_SEGMENT)
    for i in range(len(connection)):
        c = connection[i]
        if c < 0:
            continue
        direction = 1 if downlink[i] else 0
        if flags[i] & SYN:
            if mss[i] >= MIN_ANNOUNCED_MSS:
                announced[c, direction] = max(announced[c, direction], np.int64(mss[i]))
        elif payload_len[i] > largest[c, direction].payload and not flags[i] & RST:
            largest[c, direction].payload = payload_len[i]
            largest[c, direction].ip_len = ip_len[i]
    return announced, largest


@inner
def _is_data(flags, payload_len):
    return payload_len > 0 and not flags & (SYN | RST)


@compiled
def _segment_sizes(packets, connection, headers, announced, merged):
    """Return int64[C, 2]: options and payload (B) of a full segment; 0 if none was merged.

    headers: int64[M], B without options. announced, merged: see on_the_wire.
    """
    downlink, flags, ip_len = packets.downlink, packets.tcp_flags, packets.ip_len
    payload_len = packets.payload_len
    agreed, seen = np.zeros(merged.shape, np.int64), np.zeros(merged.shape, np.int64)
    fits_agreed, fits_seen = np.zeros(merged.shape, np.int64), np.zeros(merged.shape, np.int64)
    divisor, multiples = np.zeros(merged.shape, np.int64), np.zeros(merged.shape, np.int64)
    options_of = np.zeros(merged.shape, np.int64)
    for pass_ in range(2):
        for i in range(len(connection)):
            c, direction = connection[i], 1 if downlink[i] else 0
            if c < 0 or not merged[c, direction] or not _is_data(flags[i], payload_len[i]):
                continue
            limit, payload = announced[c, 1 - direction], np.int64(payload_len[i])
            is_whole = payload <= limit if limit else ip_len[i] <= MAX_FRAME
            options = np.int64(ip_len[i]) - payload - headers[i]
            if pass_ == 0:
                mss = min(limit, announced[c, direction]) if announced[c, direction] else limit
                agreed[c, direction] = mss if limit else ETHERNET_MTU - headers[i]
                if is_whole and payload + options >= DEFAULT_MSS:
                    seen[c, direction] = max(seen[c, direction], payload + options)
                elif not is_whole and flags[i] & (PSH | FIN) == 0:
                    divisor[c, direction] = np.gcd(divisor[c, direction], payload)
                    multiples[c, direction] += 1
                    options_of[c, direction] = options
            elif not is_whole:
                fits_agreed[c, direction] += payload % max(1, agreed[c, direction] - options) == 0
                fits_seen[c, direction] += payload % max(1, seen[c, direction] - options) == 0
    for c in range(len(merged)):
        for direction in range(2):
            min_fits = fits_agreed[c, direction] + (1 if announced[c, 1 - direction] else 0)
            if seen[c, direction] and fits_seen[c, direction] >= min_fits:
                agreed[c, direction] = seen[c, direction]
            elif fits_agreed[c, direction] < multiples[c, direction] >= MIN_MULTIPLES:
                options, whole = options_of[c, direction], divisor[c, direction]
                parts = -(-whole // max(1, agreed[c, direction] - options))
                if whole % max(1, parts) == 0 and whole >= parts * (DEFAULT_MSS - options):
                    agreed[c, direction] = whole // parts + options
    return agreed


@compiled
def _piece_sizes(packets, connection, headers, segment_size):
    """Return int64[M]: the payload (B) of the segments into which a packet is split; 0: not split.

    segment_size: see _segment_sizes.
    """
    out = np.zeros(len(connection), np.int64)
    for i in range(len(connection)):
        c, direction = connection[i], 1 if packets.downlink[i] else 0
        payload = np.int64(packets.payload_len[i])
        if c < 0 or not segment_size[c, direction] or not _is_data(packets.tcp_flags[i], payload):
            continue
        piece_size = segment_size[c, direction] - (
            np.int64(packets.ip_len[i]) - payload - headers[i]
        )
        if MAX_SEGMENTS * piece_size >= payload > piece_size > 0:
            out[i] = piece_size
    return out


def _split(packets, connection, count, piece_size):
    """Return the Wire; piece_size: see _piece_sizes."""
    payload = packets.payload_len.astype(np.int64)
    piece_counts = np.where(piece_size > 0, -(-payload // np.maximum(piece_size, 1)), 1)
    first_pieces = np.concatenate(([0], np.cumsum(piece_counts)))
    packet = np.repeat(np.arange(len(piece_counts)), piece_counts)
    columns = {
        name: gather(values, packet)
        for name, values in packets._asdict().items()
        if name not in ("first", "sack_edges", "downlink_bytes_before")
    }
    piece = np.arange(len(packet)) - first_pieces[packet]
    is_last = piece == piece_counts[packet] - 1
    full_payload = piece_size[packet]
    piece_payload = np.where(
        full_payload == 0,
        payload[packet],
        np.minimum(full_payload, payload[packet] - piece * full_payload),
    )
    flags = columns["tcp_flags"]
    flags = np.where(is_last, flags, flags & ~np.uint16(FIN | PSH))
    ip_len = (columns["ip_len"] - payload[packet] + piece_payload).astype(np.uint32)
    changed = {
        "seq": (columns["seq"] + piece * full_payload).astype(np.uint32),
        "payload_len": piece_payload.astype(np.uint32),
        "ip_len": ip_len,
        "ip_id": np.where(columns["ip_id"] == 0, 0, columns["ip_id"] + piece).astype(np.uint16),
        "tcp_flags": np.where(piece == 0, flags, flags & ~np.uint16(CWR)),
    }
    wire = Packets(
        **columns | changed,
        first=first_pieces[packets.first],
        sack_edges=packets.sack_edges,
        downlink_bytes_before=downlink_bytes_before(columns["downlink"], ip_len),
    )
    merged = np.bincount(
        connection[piece_counts > 1], piece_counts[piece_counts > 1], count
    ).astype(np.int64)
    return Wire(wire, connection[packet], merged)
