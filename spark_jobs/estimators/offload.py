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
LARGEST_FRAME = 2000
"""IEEE 802.3as: with tags and labels an Ethernet carries no more."""
LEAST_ANNOUNCED = 88
"""Linux's least MSS: what an end announces below that, no sender goes by."""
MOST_SEGMENTS = 65_535
"""Linux's GSO_MAX_SEGS: more are no merged packet."""
LEAST_MSS = 536
"""RFC 9293, 3.7.1: smaller packets do not show what a sender's segments may hold."""
HEADERS, HEADERS_IPV6 = 40, 60
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
    merged = np.where(limit > 0, largest["payload"] > limit, largest["ip_len"] > LARGEST_FRAME)
    if not merged.any():
        return Wire(packets, connection, np.zeros(count, np.int64))
    headers = np.where(server_ipv6, HEADERS_IPV6, HEADERS)[packets.server]
    size = _segment_sizes(packets, connection, headers, announced, merged)
    piece = _pieces(packets, connection, headers, size)
    return _cut(packets, connection, count, piece)


LARGEST = np.dtype([("payload", "i8"), ("ip_len", "i8")])


@compiled
def _sizes(packets, connection, count):
    """(int64[C, 2] MSS that either end announced, 0: not seen; LARGEST[C, 2] of what it sent)."""
    downlink, flags, mss = packets.downlink, packets.tcp_flags, packets.mss
    payload_len, ip_len = packets.payload_len, packets.ip_len
    announced = np.zeros((count, 2), np.int64)
    largest = np.zeros((count, 2), LARGEST)
    for i in range(len(connection)):
        c = connection[i]
        if c < 0:
            continue
        way = 1 if downlink[i] else 0
        if flags[i] & SYN:
            if mss[i] >= LEAST_ANNOUNCED:
                announced[c, way] = max(announced[c, way], np.int64(mss[i]))
        elif payload_len[i] > largest[c, way].payload and not flags[i] & RST:
            largest[c, way].payload = payload_len[i]
            largest[c, way].ip_len = ip_len[i]
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
    for fitting in range(2):
        for i in range(len(connection)):
            c, way = connection[i], 1 if downlink[i] else 0
            if c < 0 or not merged[c, way] or not _is_data(flags[i], payload_len[i]):
                continue
            limit, payload = announced[c, 1 - way], np.int64(payload_len[i])
            whole = payload <= limit if limit else ip_len[i] <= LARGEST_FRAME
            options = np.int64(ip_len[i]) - payload - headers[i]
            if fitting == 0:
                both = min(limit, announced[c, way]) if announced[c, way] else limit
                agreed[c, way] = both if limit else ETHERNET_MTU - headers[i]
                if whole and payload + options >= LEAST_MSS:
                    seen[c, way] = max(seen[c, way], payload + options)
            elif not whole:
                fits_agreed[c, way] += payload % max(1, agreed[c, way] - options) == 0
                fits_seen[c, way] += payload % max(1, seen[c, way] - options) == 0
    for c in range(len(merged)):
        for way in range(2):
            least = fits_agreed[c, way] + (1 if announced[c, 1 - way] else 0)
            if seen[c, way] and fits_seen[c, way] >= least:
                agreed[c, way] = seen[c, way]
    return agreed


@compiled
def _pieces(packets, connection, headers, size):
    """int64[M]: the payload (B) of the segments into which a packet is cut, 0: it is one. size: see
    _segment_sizes."""
    out = np.zeros(len(connection), np.int64)
    for i in range(len(connection)):
        c, way = connection[i], 1 if packets.downlink[i] else 0
        payload = np.int64(packets.payload_len[i])
        if c < 0 or not size[c, way] or not _is_data(packets.tcp_flags[i], payload):
            continue
        piece = size[c, way] - (np.int64(packets.ip_len[i]) - payload - headers[i])
        if MOST_SEGMENTS * piece >= payload > piece > 0:
            out[i] = piece
    return out


def _cut(packets, connection, count, piece):
    """The Wire; piece: see _pieces."""
    payload = packets.payload_len.astype(np.int64)
    pieces = np.where(piece > 0, -(-payload // np.maximum(piece, 1)), 1)
    begins = np.concatenate(([0], np.cumsum(pieces)))
    place = np.repeat(np.arange(len(pieces)), pieces)
    columns = {
        name: gather(values, place)
        for name, values in packets._asdict().items()
        if name not in ("first", "sack_edges", "sent_before")
    }
    number = np.arange(len(place)) - begins[place]
    is_last = number == pieces[place] - 1
    part = piece[place]
    held = np.where(part == 0, payload[place], np.minimum(part, payload[place] - number * part))
    flags = columns["tcp_flags"]
    flags = np.where(is_last, flags, flags & ~np.uint16(FIN | PSH))
    ip_len = (columns["ip_len"] - payload[place] + held).astype(np.uint32)
    changed = {
        "seq": (columns["seq"] + number * part).astype(np.uint32),
        "payload_len": held.astype(np.uint32),
        "ip_len": ip_len,
        "ip_id": np.where(columns["ip_id"] == 0, 0, columns["ip_id"] + number).astype(np.uint16),
        "tcp_flags": np.where(number == 0, flags, flags & ~np.uint16(CWR)),
    }
    wire = Packets(
        **columns | changed,
        first=begins[packets.first],
        sack_edges=packets.sack_edges,
        sent_before=downlink_bytes_before(columns["downlink"], ip_len),
    )
    merged = np.bincount(connection[pieces > 1], pieces[pieces > 1], count).astype(np.int64)
    return Wire(wire, connection[place], merged)
