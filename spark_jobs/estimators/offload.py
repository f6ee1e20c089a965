"""Packets that are several segments: what a network card or its driver merged before the monitor
captured it (LRO, GRO) or would only cut behind it (TSO, GSO), back to the segments on the wire.

A packet is merged where it carries more than the other end allows (MSS; RFC 9293, 3.7.1), or where
that was not seen, where it is larger than an Ethernet's largest frames. The segments' size is what
both ends announced, less options (RFC 6691), unless the largest packet that is not merged fits more
of the merged ones: these are mostly whole multiples of it, for a sender whose path carries less.
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.compiled.arrays import gather
from spark_jobs.estimators.records import Packets
from spark_jobs.estimators.sequence import downlink_bytes_before
from spark_jobs.estimators.tcp import CWR, FIN, PSH, RST, SYN

ETHERNET_MTU = 1500
MAX_FRAME = 2000
"""IEEE 802.3as: with tags and labels an Ethernet carries no more."""
MIN_ANNOUNCED_MSS = 88
"""Linux's least MSS: what an end announces below that, no sender goes by."""
MAX_SEGMENTS = 65_535
"""Linux's GSO_MAX_SEGS: more are no merged packet."""
DEFAULT_MSS = 536
"""RFC 9293, 3.7.1: smaller packets do not show what a sender's segments may hold."""
HEADERS_IPV4, HEADERS_IPV6 = 40, 60
"""IP and TCP without options, B."""


class Wire(NamedTuple):
    """Packets as they were on the wire."""

    packets: Packets
    connection: np.ndarray
    """int32[M]: of each packet, -1 where there is none."""
    merged: np.ndarray
    """int64[C]: how many of a connection's segments the capture had merged."""


def on_the_wire(packets, connection, count, server_ipv6):
    """The Wire of Packets, their connections (int32[M]) and how many these are; server_ipv6:
    bool[servers].

    Each segment has its packet's frame and time, its own sequence number and length, and headers of
    its own; identifications count up where they are not 0; PSH and FIN are the last one's, CWR the
    first one's (RFC 3168). SYNs and RSTs stay as they are.
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


@compiled
def _sizes(packets, connection, count):
    """(int64[C, 2] MSS that either end announced, 0: not seen; LARGEST[C, 2] of what it sent)."""
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
    """int64[C, 2]: what a segment holds, options and payload (B), where an end's were merged; else
    0. headers: int64[M], B without options; announced, merged: see on_the_wire."""
    downlink, flags, ip_len = packets.downlink, packets.tcp_flags, packets.ip_len
    payload_len = packets.payload_len
    agreed, seen = np.zeros(merged.shape, np.int64), np.zeros(merged.shape, np.int64)
    fits_agreed, fits_seen = np.zeros(merged.shape, np.int64), np.zeros(merged.shape, np.int64)
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
            elif not is_whole:
                fits_agreed[c, direction] += payload % max(1, agreed[c, direction] - options) == 0
                fits_seen[c, direction] += payload % max(1, seen[c, direction] - options) == 0
    for c in range(len(merged)):
        for direction in range(2):
            min_fits = fits_agreed[c, direction] + (1 if announced[c, 1 - direction] else 0)
            if seen[c, direction] and fits_seen[c, direction] >= min_fits:
                agreed[c, direction] = seen[c, direction]
    return agreed


@compiled
def _piece_sizes(packets, connection, headers, segment_size):
    """int64[M]: the payload (B) of the segments into which a packet is cut, 0: it is one. size: see
    _segment_sizes."""
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
    """The Wire; piece: see _pieces."""
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
