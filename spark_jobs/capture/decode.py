"""Decoding of captured frames to packet rows: IPv4, IPv6, GTP-U, TCP and its options.

Sources: RFC 791, RFC 8200, 3GPP TS 29.281 (GTP-U), RFC 9293, RFC 7323, RFC 2018. Other tunnels are
    not opened: RFC 2003, 2473 and 4213 (IP in IP), 2784 (GRE), draft-foschiano-erspan, RFC 4303
    (ESP), 3931 (L2TP), 7348 (VXLAN), 8926 (Geneve). Packet sizes come from the IP header, so a
    capture with a small snap length loses only the bytes that were cut.
"""

import numpy as np

from spark_jobs.capture.addresses import find_or_add, in_prefixes
from spark_jobs.capture.hashes import hash_combine
from spark_jobs.capture.link import (
    NOT_IP,
    TOO_SHORT,
    UNKNOWN_LINK_TYPE,
    WIFI_LINK_TYPE,
    be16,
    ip_header,
    vlan_of,
)
from spark_jobs.capture.quic_headers import parse_quic, parse_unreachable
from spark_jobs.capture.record import (
    FRAGMENT_OFFSET,
    HAS_IP_ID,
    HAS_MSS,
    HAS_OPTIONS_CUT,
    HAS_PORTS,
    HAS_SACK,
    HAS_SACK_PERMITTED,
    HAS_TCP,
    HAS_TIMESTAMPS,
    HAS_WINDOW_SCALE,
    MORE_FRAGMENTS,
)
from spark_jobs.compiled import compiled, inlined, inner

# Reasons in schemas.SKIP_REASONS, in the order of the counters.
COUNTED_REASONS = (
    "not_ip",
    "short_capture",
    "unknown_link_type",
    "wifi",
    "not_subscriber",
    "tunnel_ip_in_ip",
    "tunnel_gre",
    "tunnel_erspan",
    "tunnel_esp",
    "tunnel_l2tp",
    "tunnel_vxlan",
    "tunnel_geneve",
    "malformed_ip",
    "short_tcp",
    "malformed_tcp",
    "malformed_options",
    "options_cut",
    "implausible_time",
)
(
    C_NOT_IP,
    C_SHORT,
    C_LINK,
    C_WIFI,
    C_NOT_SUBSCRIBER,
    C_IP_IN_IP,
    C_GRE,
    C_ERSPAN,
    C_ESP,
    C_L2TP,
    C_VXLAN,
    C_GENEVE,
    C_MALFORMED_IP,
    C_SHORT_TCP,
    C_MALFORMED_TCP,
    C_OPTIONS,
    C_OPTIONS_CUT,
    C_TIME,
) = range(len(COUNTED_REASONS))

LATEST_TS_US = 253_399_622_400_000_000
"""Start of December 9999 (µs since 1970): all valid timestamps are before it.

So each has days after it, which a date can hold.
"""

FIN, SYN, RST, ACK = 1, 2, 4, 16
ICMP, TCP, UDP, FRAGMENT_HEADER, ICMPV6, NO_NEXT_HEADER = 1, 6, 17, 44, 58, 59
IPV4_INSIDE, IPV6_INSIDE, GRE, ESP, L2TP = 4, 41, 47, 50, 115
ERSPAN_TYPES = (0x88BE, 0x22EB)
GTP_U_PORT, VXLAN_PORT, GENEVE_PORT = 2152, 4789, 6081
IPV4_MAPPED = np.uint64(0xFFFF_0000_0000)
CONTENT_BYTES = 24
"""First bytes of a UDP payload in which it differs from others, within small snap lengths."""
MAX_SACK_EDGES = 8
"""Number of edges of the four SACK blocks that fit into a TCP header."""
MAX_OFFLOADED_BYTES = 8 * 65_535
"""Largest packet with segmentation offload (B): Linux's GSO_MAX_SIZE."""
OPTIONS_READ, OPTIONS_ENDED, OPTIONS_MALFORMED = range(3)
"""Ways in which parsing of TCP options ends.

OPTIONS_READ: at the end of the bytes
OPTIONS_ENDED: at the option that ends the list
OPTIONS_MALFORMED: at a length that is invalid or reaches beyond the bytes
"""


@inlined
def be32(buf, pos):
    """Return the big-endian 32-bit number at `pos`."""
    return be16(buf, pos) << 16 | be16(buf, pos + 2)


@inner
def be64(buf, pos):
    """Return the big-endian 64-bit number at `pos`."""
    return np.uint64(be32(buf, pos)) << np.uint64(32) | np.uint64(be32(buf, pos + 4))


@inner
def _offloaded_len(pos, on_wire_end):
    """Return the length of an IP packet whose header gives 0 as its length.

    With segmentation offload a packet can be longer than the field can hold. Returns 0 if the
    length on the wire is implausible.
    """
    length = on_wire_end - pos
    return length if 0 < length <= MAX_OFFLOADED_BYTES else 0


@inner
def _parse_ip(buf, pos, end, on_wire_end, row):
    """Parse the IP header at `pos` into `row`.

    Returns the position of the payload, and whether this is a fragment other than the first. If the
    header cannot be read, returns -1 - (index of the counter), False.
    """
    if pos >= end:
        return -1 - C_SHORT, False
    version = buf[pos] >> 4
    if version == 4:
        if pos + 20 > end:
            return -1 - C_SHORT, False
        header_bytes = (buf[pos] & 15) * 4
        row.ip_len = be16(buf, pos + 2)
        if row.ip_len == 0:
            row.ip_len = _offloaded_len(pos, on_wire_end)
        if header_bytes < 20 or row.ip_len < header_bytes:
            return -1 - C_MALFORMED_IP, False
        row.ip_id = be16(buf, pos + 4)
        row.has |= HAS_IP_ID
        row.dscp, row.ecn = buf[pos + 1] >> 2, buf[pos + 1] & 3
        row.ttl, row.ip_proto = buf[pos + 8], buf[pos + 9]
        row.fragment = be16(buf, pos + 6) & (MORE_FRAGMENTS | FRAGMENT_OFFSET)
        if row.fragment == 0:
            return pos + header_bytes, False
        row.datagram_id, row.header_len = row.ip_id, header_bytes
        return pos + header_bytes, row.fragment & FRAGMENT_OFFSET != 0
    if version == 6:
        if pos + 40 > end:
            return -1 - C_SHORT, False
        row.ip_len = 40 + be16(buf, pos + 4)
        if row.ip_len == 40 and buf[pos + 6] != NO_NEXT_HEADER:
            row.ip_len = max(40, _offloaded_len(pos, on_wire_end))
        traffic_class = be16(buf, pos) >> 4 & 0xFF
        row.dscp, row.ecn = traffic_class >> 2, traffic_class & 3
        row.ttl, row.fragment = buf[pos + 7], 0
        return _skip_ipv6_extensions(buf, pos + 40, end, buf[pos + 6], row)
    return -1 - C_MALFORMED_IP, False


@inner
def _skip_ipv6_extensions(buf, pos, end, next_header, row):
    """Skip the IPv6 extension headers at `pos`.

    Returns the position of the payload, and whether this is a fragment other than the first. The
    headers are hop-by-hop, routing, destination, mobility, HIP, shim6, authentication and fragment.
    A fragment header with offset 0 and no further fragments (RFC 6946) makes no fragment.
    """
    begin, is_later_fragment = pos - 40, False
    while not is_later_fragment:
        row.ip_proto = next_header
        if next_header in (0, 43, 60, 135, 139, 140):
            if pos + 2 > end:
                break
            size = (int(buf[pos + 1]) + 1) * 8
        elif next_header == 51:
            if pos + 2 > end:
                break
            size = (int(buf[pos + 1]) + 2) * 4
        elif next_header == FRAGMENT_HEADER:
            if pos + 4 > end:
                break
            offset, more_follows = be16(buf, pos + 2) >> 3, be16(buf, pos + 2) & 1
            is_later_fragment = offset != 0
            size = 8
            if row.fragment == 0 and (is_later_fragment or more_follows):
                row.fragment = offset | (MORE_FRAGMENTS if more_follows else 0)
                is_known = pos + 8 <= end and pos + 8 - begin <= 0xFFFF
                row.header_len = pos + 8 - begin if is_known else 0
                row.datagram_id = be32(buf, pos + 4) if is_known else 0
        else:
            break
        next_header = buf[pos]
        pos += size
    row.ip_proto = next_header
    return pos, is_later_fragment


@inner
def _ip_header_in_gtp(buf, pos, end):
    """Return the position of the IP header inside a G-PDU at `pos` (a UDP payload), or -1."""
    if pos + 8 > end or buf[pos] >> 4 != 3 or buf[pos + 1] != 255:
        return -1
    flags = buf[pos]
    pos += 8
    if flags & 7:
        if pos + 4 > end:
            return -1
        extension = buf[pos + 3] if flags & 4 else np.uint8(0)
        pos += 4
        while extension:
            if pos >= end or buf[pos] == 0:
                return -1
            size = int(buf[pos]) * 4
            if pos + size > end:
                return -1
            extension = buf[pos + size - 1]
            pos += size
    if pos < end and (buf[pos] >> 4 == 4 or buf[pos] >> 4 == 6):
        return pos
    return -1


@inner
def _parse_tcp_options(buf, pos, end, row, edges, edge_count):
    """Parse the TCP options in buf[pos:end] into `row`, and append SACK edges to `edges`.

    edge_count: number of edges in use. Returns OPTIONS_READ, OPTIONS_ENDED or OPTIONS_MALFORMED.
        Options before a malformed one are kept.
    """
    while pos < end:
        kind = buf[pos]
        if kind == 0:
            return OPTIONS_ENDED
        if kind == 1:
            pos += 1
            continue
        if pos + 1 >= end:
            return OPTIONS_MALFORMED
        size = int(buf[pos + 1])
        if size < 2 or pos + size > end:
            return OPTIONS_MALFORMED
        if kind == 2 and size == 4:
            row.mss = be16(buf, pos + 2)
            row.has |= HAS_MSS
        elif kind == 3 and size == 3:
            row.window_scale = buf[pos + 2]
            row.has |= HAS_WINDOW_SCALE
        elif kind == 4 and size == 2:
            row.has |= HAS_SACK_PERMITTED
        elif kind == 5 and size >= 10 and size % 8 == 2 and not row.has & HAS_SACK:
            row.has |= HAS_SACK
            row.sack_offset = edge_count
            row.sack_edges = min((size - 2) // 4, MAX_SACK_EDGES)
            for i in range(row.sack_edges):
                edges[edge_count + i] = be32(buf, pos + 2 + 4 * i)
        elif kind == 8 and size == 10:
            row.ts_val, row.ts_ecr = be32(buf, pos + 2), be32(buf, pos + 6)
            row.has |= HAS_TIMESTAMPS
        pos += size
    return OPTIONS_READ


@inner
def _parse_tcp(buf, ip_pos, pos, end, row, edges, edge_count, counters):
    """Parse the TCP header at `pos` into `row`.

    ip_pos: position of its IP header. A TCP header that continues in the next fragment (RFC 1858)
        is not parsed.
    """
    if pos + 20 > end:
        counters[C_SHORT_TCP] += 1
        return
    header_bytes = (buf[pos + 12] >> 4) * 4
    tcp_bytes = np.int64(row.ip_len) - (pos - ip_pos)
    payload_bytes = tcp_bytes - header_bytes
    if row.fragment != 0 and (tcp_bytes < 20 or payload_bytes < 0):
        counters[C_SHORT_TCP] += 1
        return
    if header_bytes < 20 or payload_bytes < 0:
        counters[C_MALFORMED_TCP] += 1
        return
    row.seq, row.ack = be32(buf, pos + 4), be32(buf, pos + 8)
    row.tcp_flags = be16(buf, pos + 12) & 0x0FFF
    row.window = be16(buf, pos + 14)
    row.payload_len = payload_bytes
    row.has |= HAS_TCP
    has_all_options = pos + header_bytes <= end
    options_end = pos + header_bytes if has_all_options else end
    outcome = _parse_tcp_options(buf, pos + 20, options_end, row, edges, edge_count)
    if not has_all_options and outcome != OPTIONS_ENDED:
        row.has |= HAS_OPTIONS_CUT
        counters[C_OPTIONS_CUT] += 1
    elif outcome == OPTIONS_MALFORMED:
        counters[C_OPTIONS] += 1


@inner
def _content_hash(buf, pos, end):
    """Return a hash of the CONTENT_BYTES at `pos`, never 0; 0 if the capture has fewer."""
    if pos + CONTENT_BYTES > end:
        return np.uint32(0)
    value = np.uint64(0)
    for i in range(pos, pos + CONTENT_BYTES, 8):
        value = hash_combine(value, be64(buf, i))
    return np.uint32(value | np.uint64(1))


@inner
def _non_subscriber_reason(buf, payload_pos, end, row):
    """Return the counter of a packet between endpoints that are no subscribers.

    It is a kind of tunnel, in which a subscriber's packet may be, or any other packet. payload_pos:
    position of the layer above IP.
    """
    if row.ip_proto == IPV4_INSIDE or row.ip_proto == IPV6_INSIDE:
        return C_IP_IN_IP
    if row.ip_proto == GRE:
        return (
            C_ERSPAN
            if payload_pos + 4 <= end and be16(buf, payload_pos + 2) in ERSPAN_TYPES
            else C_GRE
        )
    if row.ip_proto == ESP:
        return C_ESP
    if row.ip_proto == L2TP:
        return C_L2TP
    if row.ip_proto == UDP and payload_pos + 4 <= end:
        port = be16(buf, payload_pos + 2)
        if port == VXLAN_PORT:
            return C_VXLAN
        if port == GENEVE_PORT:
            return C_GENEVE
    return C_NOT_SUBSCRIBER


@inner
def _decode_frame(buf, frame, row, edges, edge_count, entries, slots, prefixes, counters):
    """Decode one frame into `row`.

    Returns the address numbers of source and destination, and the counter for a packet if neither
    is a subscriber. Returns -1, -1, -1 if the frame gives no row; its reason is then counted.
    """
    end = np.int64(frame.offset) + frame.captured
    on_wire_end = np.int64(frame.offset) + frame.on_wire
    ip_pos = ip_header(buf, np.int64(frame.offset), end, frame.link_type)
    if ip_pos < 0:
        if ip_pos == NOT_IP:
            counters[C_NOT_IP] += 1
        elif ip_pos == TOO_SHORT:
            counters[C_SHORT] += 1
        elif ip_pos == UNKNOWN_LINK_TYPE:
            counters[C_LINK] += 1
        elif ip_pos == WIFI_LINK_TYPE:
            counters[C_WIFI] += 1
        return -1, -1, -1
    while True:
        row.has = 0
        payload_pos, is_later_fragment = _parse_ip(buf, ip_pos, end, on_wire_end, row)
        if payload_pos < 0:
            counters[-1 - payload_pos] += 1
            return -1, -1, -1
        if is_later_fragment or row.ip_proto != UDP or payload_pos + 8 > end:
            break
        if be16(buf, payload_pos) != GTP_U_PORT and be16(buf, payload_pos + 2) != GTP_U_PORT:
            break
        inner_pos = _ip_header_in_gtp(buf, payload_pos + 8, end)
        if inner_pos < 0:
            break
        ip_pos = inner_pos
    if (
        not is_later_fragment
        and (row.ip_proto == TCP or row.ip_proto == UDP)
        and payload_pos + 4 <= end
    ):
        row.has |= HAS_PORTS
    if not is_later_fragment and row.ip_proto == TCP:
        _parse_tcp(buf, ip_pos, payload_pos, end, row, edges, edge_count, counters)
    if buf[ip_pos] >> 4 == 4:
        source_high = target_high = np.uint64(0)
        source_low = IPV4_MAPPED | np.uint64(be32(buf, ip_pos + 12))
        target_low = IPV4_MAPPED | np.uint64(be32(buf, ip_pos + 16))
    else:
        source_high, source_low = be64(buf, ip_pos + 8), be64(buf, ip_pos + 16)
        target_high, target_low = be64(buf, ip_pos + 24), be64(buf, ip_pos + 32)
    source_vlan = target_vlan = vlan_of(buf, np.int64(frame.offset), end, frame.link_type)
    if source_vlan:
        source_vlan *= np.uint64(in_prefixes(prefixes, source_high, source_low))
        target_vlan *= np.uint64(in_prefixes(prefixes, target_high, target_low))
    source = find_or_add(entries, slots, prefixes, source_high, source_low, source_vlan)
    target = find_or_add(entries, slots, prefixes, target_high, target_low, target_vlan)
    if row.has & HAS_PORTS:
        row.user_port, row.server_port = be16(buf, payload_pos), be16(buf, payload_pos + 2)
        if row.ip_proto == UDP:
            row.content = 0
            if row.fragment == 0 and payload_pos + 8 < end:
                row.content = _content_hash(buf, payload_pos + 8, end)
                parse_quic(buf, payload_pos + 8, end, be16(buf, payload_pos + 4) - 8, row)
    elif row.fragment == 0 and (row.ip_proto == ICMP or row.ip_proto == ICMPV6):
        parse_unreachable(buf, payload_pos, end, row.ip_proto == ICMPV6, row)
    return (
        source,
        target,
        _non_subscriber_reason(buf, end if is_later_fragment else payload_pos, end, row),
    )


@compiled
def decode(
    buf, frames, first_frame, rows, row_count, edges, edge_count, entries, slots, prefixes, counters
):
    """Decode frames to packet rows.

    buf: bytes of the window
    frames: FRAME[m]
    first_frame: number of frames[0] in the file
    rows: ROW[..], written from `row_count` on, with room for two rows per frame. A packet between
        two subscribers is uplink of one and downlink of the other.
    edges: uint32[..], SACK edges, written from `edge_count` on, with room for MAX_SACK_EDGES per
        frame
    entries, slots, prefixes: see AddressTable
    counters: int64[len(COUNTED_REASONS)]

    Returns (number of rows, number of edges).
    """
    for i in range(len(frames)):
        row = rows[row_count]
        row.ts, row.frame, row.clock_steps = frames[i].ts, first_frame + i, 0
        if row.ts < 0 or row.ts >= LATEST_TS_US:
            counters[C_TIME] += 1
            continue
        source, target, skip_reason = _decode_frame(
            buf, frames[i], row, edges, edge_count, entries, slots, prefixes, counters
        )
        if source < 0:
            continue
        from_subscriber, to_subscriber = entries[source, 2] != 0, entries[target, 2] != 0
        if not from_subscriber and not to_subscriber:
            counters[skip_reason] += 1
            continue
        if row.has & HAS_SACK:
            edge_count += row.sack_edges
        if from_subscriber:
            row.user, row.server, row.downlink = source, target, False
            row_count += 1
            if to_subscriber:
                # This copies byte by byte, which is slow but rarely needed.
                rows[row_count] = rows[row_count - 1]
                row = rows[row_count]
        if to_subscriber:
            row.user, row.server, row.downlink = target, source, True
            row.user_port, row.server_port = row.server_port, row.user_port
            row_count += 1
    return row_count, edge_count
