"""From frames to packet rows: IPv4, IPv6, GTP-U, TCP and its options.

RFC 791, RFC 8200, 3GPP TS 29.281 (GTP-U), RFC 9293, RFC 7323, RFC 2018. Tunnels that are not
opened: RFC 2003, 2473 and 4213 (IP in IP), 2784 (GRE), draft-foschiano-erspan, RFC 4303 (ESP),
3931 (L2TP), 7348 (VXLAN), 8926 (Geneve). Sizes come from the IP header, so a capture cut short
loses nothing but what it cut.
"""

import numpy as np

from spark_jobs.capture.addresses import find_or_add
from spark_jobs.capture.link import (
    NOT_IP,
    TOO_SHORT,
    UNKNOWN_LINK_TYPE,
    WIFI_LINK_TYPE,
    be16,
    ip_header,
)
from spark_jobs.compiled import compiled, inlined, inner

ROW = np.dtype(
    [
        ("frame", "i8"),
        ("ts", "i8"),
        ("user", "i4"),
        ("server", "i4"),
        ("ip_len", "u4"),
        ("seq", "u4"),
        ("ack", "u4"),
        ("payload_len", "u4"),
        ("ts_val", "u4"),
        ("ts_ecr", "u4"),
        ("sack_at", "i4"),
        ("datagram", "u4"),
        ("user_port", "u2"),
        ("server_port", "u2"),
        ("ip_id", "u2"),
        ("tcp_flags", "u2"),
        ("window", "u2"),
        ("mss", "u2"),
        ("has", "u2"),
        ("fragment", "u2"),
        ("header_len", "u2"),
        ("ip_proto", "u1"),
        ("ttl", "u1"),
        ("window_scale", "u1"),
        ("sack_edges", "u1"),
        ("clock_steps", "u1"),
        ("downlink", "?"),
    ],
    align=True,
)
"""A packet before sorting: columns of schemas.packets; user and server as numbers in an
AddressTable; SACK edges as a place in a list of their own and their number; `has` tells what is not
null. Where the packet is a fragment, `fragment` is its place in the datagram, as IPv4 has it in its
flags and offset (in units of 8 bytes, MORE_FRAGMENTS where others follow); else 0, and the other
columns OF_FRAGMENTS may hold anything: `datagram` is the identification that all fragments of a
datagram share, `header_len` the bytes (B) before the fragment's data, IPv6's fragment header
included; 0 where that is not known."""

OF_FRAGMENTS = ("datagram", "fragment", "header_len")
"""Columns of ROW that only joining needs (see fragments.py)."""
MORE_FRAGMENTS, FRAGMENT_OFFSET = 0x2000, 0x1FFF

HAS_PORTS, HAS_IP_ID, HAS_TCP, HAS_MSS, HAS_WINDOW_SCALE = 1, 2, 4, 8, 16
HAS_SACK_PERMITTED, HAS_TIMESTAMPS, HAS_SACK, HAS_OPTIONS_CUT = 32, 64, 128, 256
TOLD = {"sack_permitted": HAS_SACK_PERMITTED, "options_cut": HAS_OPTIONS_CUT}
"""Columns that are true or null, by the flag that tells which."""
NUMBERS_OF = {
    HAS_PORTS: ("user_port", "server_port"),
    HAS_IP_ID: ("ip_id",),
    HAS_TCP: ("tcp_flags", "seq", "ack", "window", "payload_len"),
    HAS_MSS: ("mss",),
    HAS_WINDOW_SCALE: ("window_scale",),
    HAS_TIMESTAMPS: ("ts_val", "ts_ecr"),
}
"""Numeric columns by the flag that tells of them: a packet has all of a flag's, or none."""

# Reasons, as places in the counters; COUNTED names them as schemas.SKIP_REASONS does.
COUNTED = (
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
) = range(len(COUNTED))

LATEST_TS_US = 253_402_300_800_000_000
"""Year 10000."""

FIN, SYN, RST, ACK = 1, 2, 4, 16
TCP, UDP, FRAGMENT_HEADER, NO_NEXT_HEADER = 6, 17, 44, 59
IPV4_INSIDE, IPV6_INSIDE, GRE, ESP, L2TP = 4, 41, 47, 50, 115
ERSPAN_TYPES = (0x88BE, 0x22EB)
GTP_U_PORT, VXLAN_PORT, GENEVE_PORT = 2152, 4789, 6081
IPV4_MAPPED = np.uint64(0xFFFF_0000_0000)
MOST_EDGES = 8
"""Edges of the four SACK blocks that fit in a header."""
LARGEST_OFFLOADED = 8 * 65_535
"""Linux's GSO_MAX_SIZE."""
OPTIONS_READ, OPTIONS_ENDED, OPTIONS_LIE = range(3)
"""How reading options came to its end: at that of the bytes, at the option that ends the list, at a
length that is wrong or reaches beyond the bytes."""


@inlined
def be32(buf, at):
    return be16(buf, at) << 16 | be16(buf, at + 2)


@inner
def be64(buf, at):
    return np.uint64(be32(buf, at)) << np.uint64(32) | np.uint64(be32(buf, at + 4))


@inner
def _offloaded_len(at, on_wire_end):
    """Length of an IP packet whose header says 0, for segmentation offload, as it is longer than
    the field can say; 0 where the wire length cannot be true."""
    length = on_wire_end - at
    return length if 0 < length <= LARGEST_OFFLOADED else 0


@inner
def _ip(buf, at, end, on_wire_end, row):
    """The IP header at `at` into `row`.

    Returns (place of the layer above, whether this is a fragment other than the first), or
    (minus the counter's place - 1, False) where the header cannot be read.
    """
    if at >= end:
        return -1 - C_SHORT, False
    version = buf[at] >> 4
    if version == 4:
        if at + 20 > end:
            return -1 - C_SHORT, False
        header = (buf[at] & 15) * 4
        row.ip_len = be16(buf, at + 2)
        if row.ip_len == 0:
            row.ip_len = _offloaded_len(at, on_wire_end)
        if header < 20 or row.ip_len < header:
            return -1 - C_MALFORMED_IP, False
        row.ip_id = be16(buf, at + 4)
        row.has |= HAS_IP_ID
        row.ttl, row.ip_proto = buf[at + 8], buf[at + 9]
        row.fragment = be16(buf, at + 6) & (MORE_FRAGMENTS | FRAGMENT_OFFSET)
        if row.fragment == 0:
            return at + header, False
        row.datagram, row.header_len = row.ip_id, header
        return at + header, row.fragment & FRAGMENT_OFFSET != 0
    if version == 6:
        if at + 40 > end:
            return -1 - C_SHORT, False
        row.ip_len = 40 + be16(buf, at + 4)
        if row.ip_len == 40 and buf[at + 6] != NO_NEXT_HEADER:
            row.ip_len = max(40, _offloaded_len(at, on_wire_end))
        row.ttl, row.fragment = buf[at + 7], 0
        return _ipv6_extensions(buf, at + 40, end, buf[at + 6], row)
    return -1 - C_MALFORMED_IP, False


@inner
def _ipv6_extensions(buf, at, end, next_header, row):
    """Hop-by-hop, routing, destination, mobility, HIP, shim6, authentication, fragment. A fragment
    header without others to come, before or behind (RFC 6946), makes no fragment."""
    begin, later = at - 40, False
    while not later:
        row.ip_proto = next_header
        if next_header in (0, 43, 60, 135, 139, 140):
            if at + 2 > end:
                break
            size = (int(buf[at + 1]) + 1) * 8
        elif next_header == 51:
            if at + 2 > end:
                break
            size = (int(buf[at + 1]) + 2) * 4
        elif next_header == FRAGMENT_HEADER:
            if at + 4 > end:
                break
            offset, more = be16(buf, at + 2) >> 3, be16(buf, at + 2) & 1
            later = offset != 0
            size = 8
            if row.fragment == 0 and (later or more):
                row.fragment = offset | (MORE_FRAGMENTS if more else 0)
                known = at + 8 <= end and at + 8 - begin <= 0xFFFF
                row.header_len = at + 8 - begin if known else 0
                row.datagram = be32(buf, at + 4) if known else 0
        else:
            break
        next_header = buf[at]
        at += size
    row.ip_proto = next_header
    return at, later


@inner
def _inside_gtp(buf, at, end):
    """Place of the IP header inside a G-PDU at `at` (a UDP payload), or -1."""
    if at + 8 > end or buf[at] >> 4 != 3 or buf[at + 1] != 255:
        return -1
    flags = buf[at]
    at += 8
    if flags & 7:
        if at + 4 > end:
            return -1
        extension = buf[at + 3] if flags & 4 else np.uint8(0)
        at += 4
        while extension:
            if at >= end or buf[at] == 0:
                return -1
            size = int(buf[at]) * 4
            if at + size > end:
                return -1
            extension = buf[at + size - 1]
            at += size
    if at < end and (buf[at] >> 4 == 4 or buf[at] >> 4 == 6):
        return at
    return -1


@inner
def _tcp_options(buf, at, end, row, edges, used):
    """Options in buf[at:end] into `row`, SACK edges behind `used` in `edges`.

    Returns OPTIONS_READ, OPTIONS_ENDED or OPTIONS_LIE; what came before a lie stays.
    """
    while at < end:
        kind = buf[at]
        if kind == 0:
            return OPTIONS_ENDED
        if kind == 1:
            at += 1
            continue
        if at + 1 >= end:
            return OPTIONS_LIE
        size = int(buf[at + 1])
        if size < 2 or at + size > end:
            return OPTIONS_LIE
        if kind == 2 and size == 4:
            row.mss = be16(buf, at + 2)
            row.has |= HAS_MSS
        elif kind == 3 and size == 3:
            row.window_scale = buf[at + 2]
            row.has |= HAS_WINDOW_SCALE
        elif kind == 4 and size == 2:
            row.has |= HAS_SACK_PERMITTED
        elif kind == 5 and size >= 10 and size % 8 == 2 and not row.has & HAS_SACK:
            row.has |= HAS_SACK
            row.sack_at = used
            row.sack_edges = min((size - 2) // 4, MOST_EDGES)
            for i in range(row.sack_edges):
                edges[used + i] = be32(buf, at + 2 + 4 * i)
        elif kind == 8 and size == 10:
            row.ts_val, row.ts_ecr = be32(buf, at + 2), be32(buf, at + 6)
            row.has |= HAS_TIMESTAMPS
        at += size
    return OPTIONS_READ


@inner
def _tcp(buf, ip_at, at, end, row, edges, used, counted):
    """The TCP header at `at` into `row`; its IP header lies at `ip_at`. Where that header goes on
    in the next fragment (RFC 1858), it is not read."""
    if at + 20 > end:
        counted[C_SHORT_TCP] += 1
        return
    header = (buf[at + 12] >> 4) * 4
    there = np.int64(row.ip_len) - (at - ip_at)
    payload = there - header
    if row.fragment != 0 and (there < 20 or payload < 0):
        counted[C_SHORT_TCP] += 1
        return
    if header < 20 or payload < 0:
        counted[C_MALFORMED_TCP] += 1
        return
    row.seq, row.ack = be32(buf, at + 4), be32(buf, at + 8)
    row.tcp_flags = be16(buf, at + 12) & 0x0FFF
    row.window = be16(buf, at + 14)
    row.payload_len = payload
    row.has |= HAS_TCP
    whole = at + header <= end
    options_end = at + header if whole else end
    came_to = _tcp_options(buf, at + 20, options_end, row, edges, used)
    if not whole and came_to != OPTIONS_ENDED:
        row.has |= HAS_OPTIONS_CUT
        counted[C_OPTIONS_CUT] += 1
    elif came_to == OPTIONS_LIE:
        counted[C_OPTIONS] += 1


@inner
def _of_nobody(buf, above, end, row):
    """What a packet between ends that are no subscribers counts as: a kind of tunnel, in which a
    subscriber's may be, or any other packet. above: place of the layer above IP."""
    if row.ip_proto == IPV4_INSIDE or row.ip_proto == IPV6_INSIDE:
        return C_IP_IN_IP
    if row.ip_proto == GRE:
        return C_ERSPAN if above + 4 <= end and be16(buf, above + 2) in ERSPAN_TYPES else C_GRE
    if row.ip_proto == ESP:
        return C_ESP
    if row.ip_proto == L2TP:
        return C_L2TP
    if row.ip_proto == UDP and above + 4 <= end:
        port = be16(buf, above + 2)
        if port == VXLAN_PORT:
            return C_VXLAN
        if port == GENEVE_PORT:
            return C_GENEVE
    return C_NOT_SUBSCRIBER


@inner
def _one(buf, frame, row, edges, used, entries, slots, prefixes, counted):
    """One frame into `row`. Returns the ends' numbers in the address table and the counter's place
    for a packet of neither's, or -1 thrice where the frame gives no row; the reason has been
    counted."""
    end = np.int64(frame.at) + frame.captured
    on_wire_end = np.int64(frame.at) + frame.on_wire
    ip_at = ip_header(buf, np.int64(frame.at), end, frame.link_type)
    if ip_at < 0:
        if ip_at == NOT_IP:
            counted[C_NOT_IP] += 1
        elif ip_at == TOO_SHORT:
            counted[C_SHORT] += 1
        elif ip_at == UNKNOWN_LINK_TYPE:
            counted[C_LINK] += 1
        elif ip_at == WIFI_LINK_TYPE:
            counted[C_WIFI] += 1
        return -1, -1, -1
    while True:
        row.has = 0
        above, later_fragment = _ip(buf, ip_at, end, on_wire_end, row)
        if above < 0:
            counted[-1 - above] += 1
            return -1, -1, -1
        if later_fragment or row.ip_proto != UDP or above + 8 > end:
            break
        if be16(buf, above) != GTP_U_PORT and be16(buf, above + 2) != GTP_U_PORT:
            break
        inner = _inside_gtp(buf, above + 8, end)
        if inner < 0:
            break
        ip_at = inner
    if not later_fragment and (row.ip_proto == TCP or row.ip_proto == UDP) and above + 4 <= end:
        row.has |= HAS_PORTS
    if not later_fragment and row.ip_proto == TCP:
        _tcp(buf, ip_at, above, end, row, edges, used, counted)
    if buf[ip_at] >> 4 == 4:
        source_high = target_high = np.uint64(0)
        source_low = IPV4_MAPPED | np.uint64(be32(buf, ip_at + 12))
        target_low = IPV4_MAPPED | np.uint64(be32(buf, ip_at + 16))
    else:
        source_high, source_low = be64(buf, ip_at + 8), be64(buf, ip_at + 16)
        target_high, target_low = be64(buf, ip_at + 24), be64(buf, ip_at + 32)
    source = find_or_add(entries, slots, prefixes, source_high, source_low)
    target = find_or_add(entries, slots, prefixes, target_high, target_low)
    if row.has & HAS_PORTS:
        row.user_port, row.server_port = be16(buf, above), be16(buf, above + 2)
    return source, target, _of_nobody(buf, end if later_fragment else above, end, row)


@compiled
def decode(buf, frames, first_frame, rows, n, edges, used, entries, slots, prefixes, counted):
    """Frames to packet rows.

    buf: the window; frames: FRAME[m]; first_frame: number of frames[0] in the file; rows: ROW[..],
    written from `n` on, with room for two rows a frame (a packet between two subscribers is one's
    uplink and the other's downlink); edges: uint32[..], SACK edges, written from `used` on, with
    room for MOST_EDGES a frame; entries, slots, prefixes: see AddressTable; counted:
    int64[len(COUNTED)].
    Returns (rows in all, edges in all).
    """
    for i in range(len(frames)):
        row = rows[n]
        row.ts, row.frame, row.clock_steps = frames[i].ts, first_frame + i, 0
        if row.ts < 0 or row.ts >= LATEST_TS_US:
            counted[C_TIME] += 1
            continue
        source, target, otherwise = _one(
            buf, frames[i], row, edges, used, entries, slots, prefixes, counted
        )
        if source < 0:
            continue
        from_subscriber, to_subscriber = entries[source, 2] != 0, entries[target, 2] != 0
        if not from_subscriber and not to_subscriber:
            counted[otherwise] += 1
            continue
        if row.has & HAS_SACK:
            used += row.sack_edges
        if from_subscriber:
            row.user, row.server, row.downlink = source, target, False
            n += 1
            if to_subscriber:
                rows[n] = rows[n - 1]  # a copy of its bytes, one by one: slow, but seldom
                row = rows[n]
        if to_subscriber:
            row.user, row.server, row.downlink = target, source, True
            row.user_port, row.server_port = row.server_port, row.user_port
            n += 1
    return n, used
