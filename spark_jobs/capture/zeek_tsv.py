"""Direct conversion of lines of Zeek's packet log to packet rows.

It is several times as fast as Arrow's CSV reader, but it parses only regular lines. The caller
parses the other lines in another way.
"""

from collections.abc import Iterable

import numpy as np

from schemas.packets import QUIC_FORMS
from schemas.zeek import PACKET_LOG
from spark_jobs.capture import decode
from spark_jobs.capture.addresses import find_or_add
from spark_jobs.capture.hashes import fnv1a
from spark_jobs.capture.quic_headers import (
    HAS_QUIC,
    HAS_QUIC_SPIN,
    QUIC_COLUMNS,
    QUIC_SPIN_SET,
    columns_by_flag,
)
from spark_jobs.compiled import compiled, inlined, inner, making

FIELDS = tuple(PACKET_LOG.fields)
(
    TS,
    USER,
    USER_PORT,
    SERVER,
    SERVER_PORT,
    DOWNLINK,
    IP_PROTO,
    IP_LEN,
    IP_ID,
    TTL,
    DSCP,
    ECN,
    TCP_FLAGS,
    SEQ,
    ACK,
    WINDOW,
    PAYLOAD_LEN,
    MSS,
    WINDOW_SCALE,
    SACK_PERMITTED,
    TS_VAL,
    TS_ECR,
    SACK,
    OPTIONS_CUT,
    QUIC_FORM,
    QUIC_COALESCED,
    QUIC_VERSION,
    QUIC_SPIN,
    QUIC_DCID,
    QUIC_SCID,
    QUIC_LENGTH,
) = range(len(FIELDS))
IGNORED = -1

TAB, NEWLINE, DOT, COLON, DASH, COMMA = 9, 10, 46, 58, 45, 44
IPV4_MAPPED = np.uint64(0xFFFF_0000_0000)
MAX_DIGITS = 12


@inner
def _parse_form(text, pos, end):
    """Return the code of the form of QUIC that text[pos:end] names, or NO_FORM."""
    hashed = fnv1a(text, pos, end)
    for code in range(len(FORM_HASHES)):
        if FORM_HASHES[code] == hashed:
            return code
    return NO_FORM


def _field_bits(names: Iterable[str]) -> int:
    return sum(1 << FIELDS.index(name) for name in names)


REQUIRED = _field_bits(PACKET_LOG.required)
FIELDS_BY_FLAG = tuple(
    (flag, _field_bits(names))
    for flag, names in (decode.NUMERIC_COLUMNS | columns_by_flag()).items()
)
"""Flags of decode.ROW's `has`, with the fields of each as bits."""
QUIC_FIELDS = _field_bits((*QUIC_COLUMNS, "quic_spin"))
QUIC_NEEDS = HAS_QUIC | decode.HAS_PORTS
OF_TCP = decode.HAS_TCP | decode.HAS_MSS | decode.HAS_WINDOW_SCALE | decode.HAS_TIMESTAMPS
"""Flags of the fields that a row of QUIC's has, and of those whose places in decode.ROW it uses."""
FORM_HASHES = tuple(
    int(fnv1a.py_func(np.frombuffer(form.encode(), np.uint8), 0, len(form))) for form in QUIC_FORMS
)
NO_FORM = -1


@inlined
def _parse_number(text, pos, end):
    """Return the decimal number in text[pos:end], or -1 if it is no number."""
    if end == pos or end - pos > MAX_DIGITS:
        return np.int64(-1)
    value = np.int64(0)
    for i in range(pos, end):
        digit = np.int64(text[i]) - 48
        if digit < 0 or digit > 9:
            return np.int64(-1)
        value = 10 * value + digit
    return value


@inner
def _parse_time(text, pos, end):
    """Return seconds with one to six decimals as µs, or -1 if the text has another form."""
    dot = pos
    while dot < end and text[dot] != DOT:
        dot += 1
    decimals = end - dot - 1
    seconds = _parse_number(text, pos, dot)
    if seconds < 0 or decimals < 1 or decimals > 6:
        return np.int64(-1)
    fraction = _parse_number(text, dot + 1, end)
    if fraction < 0:
        return np.int64(-1)
    for _ in range(6 - decimals):
        fraction *= 10
    return 1_000_000 * seconds + fraction


@inner
def _parse_ipv4(text, pos, end):
    """Return the low half of an address, and whether the text is an IPv4 address.

    The low half is as in an AddressTable.
    """
    value, dots, start = np.uint64(0), 0, pos
    for i in range(pos, end + 1):
        if i == end or text[i] == DOT:
            byte = _parse_number(text, start, i)
            if byte < 0 or byte > 255 or i - start > 3:
                return value, False
            value = value << np.uint64(8) | np.uint64(byte)
            dots += i < end
            start = i + 1
    return IPV4_MAPPED | value, dots == 3


@making
def _parse_ipv6(text, pos, end):
    """Return the high and low half of an address, and whether the text is one.

    The form is that of RFC 5952, without dotted parts.
    """
    groups = np.zeros(8, np.uint64)
    n, gap, i = 0, -1, pos
    while i < end:
        if text[i] == COLON:
            if i + 1 < end and text[i + 1] == COLON and gap < 0:
                gap = n
                i += 2
                continue
            if i == pos or i + 1 == end or text[i + 1] == COLON or text[i - 1] == COLON:
                return np.uint64(0), np.uint64(0), False
            i += 1
        digits, value = 0, np.uint64(0)
        while i < end and text[i] != COLON:
            c = np.int64(text[i]) | 32
            digit = c - 48 if c <= 57 else c - 87
            if digit < 0 or digit > 15 or (c > 57 and c < 97):
                return np.uint64(0), np.uint64(0), False
            value = value << np.uint64(4) | np.uint64(digit)
            digits += 1
            i += 1
        if digits == 0 or digits > 4 or n == 8:
            return np.uint64(0), np.uint64(0), False
        groups[n] = value
        n += 1
    if (gap < 0 and n != 8) or (gap >= 0 and n > 7):
        return np.uint64(0), np.uint64(0), False
    high = low = np.uint64(0)
    for k in range(8):
        if gap < 0 or k < gap:
            group = groups[k]
        elif k < gap + 8 - n:
            group = np.uint64(0)
        else:
            group = groups[k - 8 + n]
        if k < 4:
            high = high << np.uint64(16) | group
        else:
            low = low << np.uint64(16) | group
    return high, low, True


@inlined
def _store_number(row, field, value):
    """Store a number in its field, and return whether it is within the field's range.

    A negative value is no number.
    """
    if value < 0:
        return False
    if field == SEQ or field == QUIC_VERSION:
        row.seq = value
    elif field == ACK or field == QUIC_DCID:
        row.ack = value
    elif field == PAYLOAD_LEN:
        row.payload_len = value
    elif field == IP_LEN:
        row.ip_len = value
    elif field == TS_VAL or field == QUIC_SCID:
        row.ts_val = value
    elif field == TS_ECR or field == QUIC_LENGTH:
        row.ts_ecr = value
    elif field == IP_PROTO:
        row.ip_proto = value
        return value <= 0xFF
    elif field == TTL:
        row.ttl = value
        return value <= 0xFF
    elif field == DSCP:
        row.dscp = value
        return value <= 63
    elif field == ECN:
        row.ecn = value
        return value <= 3
    elif field == WINDOW_SCALE:
        row.window_scale = value
        return value <= 0xFF
    elif field == QUIC_COALESCED:
        row.mss = value
        return value <= 0xFF
    else:
        if field == USER_PORT:
            row.user_port = value
        elif field == SERVER_PORT:
            row.server_port = value
        elif field == IP_ID:
            row.ip_id = value
        elif field == TCP_FLAGS:
            row.tcp_flags = value
        elif field == WINDOW:
            row.window = value
        elif field == MSS:
            row.mss = value
        return value <= 0xFFFF
    return value <= 0xFFFF_FFFF


@inlined
def _set_flags(row, present, sack_edges):
    """Set the flags of fields that are not null; return whether the fields are consistent."""
    for flag, fields in FIELDS_BY_FLAG:
        if present & fields:
            if present & fields != fields:
                return False
            row.has |= flag
    if present & QUIC_FIELDS and row.has & (QUIC_NEEDS | OF_TCP) != QUIC_NEEDS:
        return False
    if present >> SACK & 1:
        row.has |= decode.HAS_SACK
        if sack_edges == 0 or sack_edges % 2:
            return False
    return True


@compiled
def parse_packets(
    text, pos, columns, rows, row_count, frame, edges, edge_count, entries, slots, prefixes
):
    """Parse lines of text from `pos` on into rows, as far as they are regular and there is room.

    text: uint8, whole lines
    columns: int64, index in FIELDS of each column, or IGNORED
    rows: decode.ROW, of which `row_count` are in use
    frame: number of the first line
    edges: uint32, SACK edges, of which `edge_count` are in use
    entries, slots, prefixes: see AddressTable

    Returns (position of the first line not parsed, number of rows, number of edges).
    """
    while pos < len(text) and row_count < len(rows):
        if np.int64(entries[0, 0]) + 3 > len(entries) or edge_count + decode.MAX_SACK_EDGES > len(
            edges
        ):
            break
        row = rows[row_count]
        present, is_valid, edges_end = np.int64(0), True, edge_count
        begin, column, stop = pos, 0, pos
        row.has = row.fragment = row.clock_steps = 0
        row.payload_len = 0  # no log has a hash of UDP's content
        row.window = 0  # no log has the length of QUIC's connection IDs (see quic_flows.py)
        while True:
            stop = begin
            while text[stop] != TAB and text[stop] != NEWLINE:
                stop += 1
            if column == len(columns):
                is_valid = False
                break
            field = columns[column]
            unset = stop - begin == 1 and text[begin] == DASH
            if field != IGNORED and not unset:
                present |= np.int64(1) << field
                if field == TS:
                    row.ts = _parse_time(text, begin, stop)
                    is_valid &= 0 <= row.ts < decode.LATEST_TS_US
                elif field == USER or field == SERVER:
                    low, is_address = _parse_ipv4(text, begin, stop)
                    high = np.uint64(0)
                    if not is_address:
                        high, low, is_address = _parse_ipv6(text, begin, stop)
                    if not is_address:
                        is_valid = False
                        break
                    number = find_or_add(entries, slots, prefixes, high, low, np.uint64(0))
                    if field == USER:
                        row.user = number
                    else:
                        row.server = number
                elif field == QUIC_FORM:
                    form = _parse_form(text, begin, stop)
                    is_valid &= form != NO_FORM
                    row.window_scale = form
                elif (
                    field == DOWNLINK
                    or field == SACK_PERMITTED
                    or field == OPTIONS_CUT
                    or field == QUIC_SPIN
                ):
                    is_true = stop - begin == 1 and text[begin] == 84  # T
                    is_valid &= is_true or (stop - begin == 1 and text[begin] == 70)  # F
                    if field == DOWNLINK:
                        row.downlink = is_true
                    elif field == QUIC_SPIN:
                        row.has |= HAS_QUIC_SPIN | (QUIC_SPIN_SET if is_true else 0)
                    elif is_true and field == SACK_PERMITTED:
                        row.has |= decode.HAS_SACK_PERMITTED
                    elif is_true:
                        row.has |= decode.HAS_OPTIONS_CUT
                elif field == SACK:
                    edge_begin = begin
                    for i in range(begin, stop + 1):
                        if i == stop or text[i] == COMMA:
                            edge = _parse_number(text, edge_begin, i)
                            if (
                                edge < 0
                                or edge > 0xFFFF_FFFF
                                or edges_end - edge_count == decode.MAX_SACK_EDGES
                            ):
                                is_valid = False
                                break
                            edges[edges_end] = edge
                            edges_end += 1
                            edge_begin = i + 1
                else:
                    is_valid &= _store_number(row, field, _parse_number(text, begin, stop))
            column += 1
            begin = stop + 1
            if text[stop] == NEWLINE or not is_valid:
                break
        if not is_valid or column != len(columns) or present & REQUIRED != REQUIRED:
            break
        if not _set_flags(row, present, edges_end - edge_count):
            break
        row.sack_offset = edge_count
        row.sack_edges = edges_end - edge_count
        edge_count = edges_end
        row.frame = frame
        frame += 1
        row_count += 1
        pos = begin
    return pos, row_count, edge_count
