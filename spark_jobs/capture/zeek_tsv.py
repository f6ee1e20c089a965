"""Lines of Zeek's packet log straight to packet rows: several times as fast as by Arrow's CSV
reader. It takes only lines in which all is in order; the caller has the others judged."""

from collections.abc import Iterable

import numpy as np

from schemas.zeek import PACKET_LOG
from spark_jobs.capture import decode
from spark_jobs.capture.addresses import find_or_add
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
) = range(len(FIELDS))
IGNORED = -1

TAB, NEWLINE, DOT, COLON, DASH, COMMA = 9, 10, 46, 58, 45, 44
MAPPED = np.uint64(0xFFFF_0000_0000)
LONGEST_NUMBER = 12


def _bits(names: Iterable[str]) -> int:
    return sum(1 << FIELDS.index(name) for name in names)


REQUIRED = _bits(PACKET_LOG.required)
TOGETHER = tuple((flag, _bits(names)) for flag, names in decode.NUMBERS_OF.items())
"""Flags of decode.ROW's `has`, each with its fields."""


@inlined
def _number(text, at, end):
    """The decimal number in text[at:end]; -1 where it is none."""
    if end == at or end - at > LONGEST_NUMBER:
        return np.int64(-1)
    value = np.int64(0)
    for i in range(at, end):
        digit = np.int64(text[i]) - 48
        if digit < 0 or digit > 9:
            return np.int64(-1)
        value = 10 * value + digit
    return value


@inner
def _microseconds(text, at, end):
    """Seconds with up to six decimals as us; -1 where it is no such text."""
    dot = at
    while dot < end and text[dot] != DOT:
        dot += 1
    decimals = end - dot - 1
    seconds = _number(text, at, dot)
    if seconds < 0 or decimals < 1 or decimals > 6:
        return np.int64(-1)
    fraction = _number(text, dot + 1, end)
    if fraction < 0:
        return np.int64(-1)
    for _ in range(6 - decimals):
        fraction *= 10
    return 1_000_000 * seconds + fraction


@inner
def _ipv4(text, at, end):
    """(the address's low half as in an AddressTable, whether it is one)."""
    value, dots, start = np.uint64(0), 0, at
    for i in range(at, end + 1):
        if i == end or text[i] == DOT:
            byte = _number(text, start, i)
            if byte < 0 or byte > 255 or i - start > 3:
                return value, False
            value = value << np.uint64(8) | np.uint64(byte)
            dots += i < end
            start = i + 1
    return MAPPED | value, dots == 3


@making
def _ipv6(text, at, end):
    """(high half, low half, whether it is an address); RFC 5952, without dotted parts."""
    groups = np.zeros(8, np.uint64)
    n, gap, i = 0, -1, at
    while i < end:
        if text[i] == COLON:
            if i + 1 < end and text[i + 1] == COLON and gap < 0:
                gap = n
                i += 2
                continue
            if i == at or i + 1 == end or text[i + 1] == COLON or text[i - 1] == COLON:
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
def _set(row, field, value):
    """A number into its field; False where it is none, or out of the field's range."""
    if value < 0:
        return False
    if field == SEQ:
        row.seq = value
    elif field == ACK:
        row.ack = value
    elif field == PAYLOAD_LEN:
        row.payload_len = value
    elif field == IP_LEN:
        row.ip_len = value
    elif field == TS_VAL:
        row.ts_val = value
    elif field == TS_ECR:
        row.ts_ecr = value
    elif field == IP_PROTO:
        row.ip_proto = value
        return value <= 0xFF
    elif field == TTL:
        row.ttl = value
        return value <= 0xFF
    elif field == WINDOW_SCALE:
        row.window_scale = value
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
def _flag(row, there, edges):
    """Set what is not null; False where one field contradicts another."""
    for flag, fields in TOGETHER:
        if there & fields:
            if there & fields != fields:
                return False
            row.has |= flag
    if there >> SACK & 1:
        row.has |= decode.HAS_SACK
        if edges == 0 or edges % 2:
            return False
    return True


@compiled
def parse_packets(text, at, columns, rows, n, frame, edges, used, entries, slots, prefixes):
    """Lines of text from `at` on into rows[n:], until one is not in order or there is no room.

    text: uint8, whole lines; columns: int64, which of FIELDS each column is, or IGNORED; rows:
    decode.ROW; frame: the first line's number; edges: uint32, SACK edges, of which `used` are
    taken; entries, slots, prefixes: of an AddressTable.
    Returns (where the first line not taken begins, n, used).
    """
    while at < len(text) and n < len(rows):
        if np.int64(entries[0, 0]) + 3 > len(entries) or used + decode.MOST_EDGES > len(edges):
            break
        row = rows[n]
        there, sound, taken = np.int64(0), True, used
        begin, column, stop = at, 0, at
        row.has = row.fragment = row.clock_steps = 0
        while True:
            stop = begin
            while text[stop] != TAB and text[stop] != NEWLINE:
                stop += 1
            if column == len(columns):
                sound = False
                break
            field = columns[column]
            unset = stop - begin == 1 and text[begin] == DASH
            if field != IGNORED and not unset:
                there |= np.int64(1) << field
                if field == TS:
                    row.ts = _microseconds(text, begin, stop)
                    sound &= 0 <= row.ts < decode.LATEST_TS_US
                elif field == USER or field == SERVER:
                    low, good = _ipv4(text, begin, stop)
                    high = np.uint64(0)
                    if not good:
                        high, low, good = _ipv6(text, begin, stop)
                    if not good:
                        sound = False
                        break
                    number = find_or_add(entries, slots, prefixes, high, low)
                    if field == USER:
                        row.user = number
                    else:
                        row.server = number
                elif field == DOWNLINK or field == SACK_PERMITTED or field == OPTIONS_CUT:
                    yes = stop - begin == 1 and text[begin] == 84  # T
                    sound &= yes or (stop - begin == 1 and text[begin] == 70)  # F
                    if field == DOWNLINK:
                        row.downlink = yes
                    elif yes and field == SACK_PERMITTED:
                        row.has |= decode.HAS_SACK_PERMITTED
                    elif yes:
                        row.has |= decode.HAS_OPTIONS_CUT
                elif field == SACK:
                    first = begin
                    for i in range(begin, stop + 1):
                        if i == stop or text[i] == COMMA:
                            edge = _number(text, first, i)
                            if edge < 0 or edge > 0xFFFF_FFFF or taken - used == decode.MOST_EDGES:
                                sound = False
                                break
                            edges[taken] = edge
                            taken += 1
                            first = i + 1
                else:
                    sound &= _set(row, field, _number(text, begin, stop))
            column += 1
            begin = stop + 1
            if text[stop] == NEWLINE or not sound:
                break
        if not sound or column != len(columns) or there & REQUIRED != REQUIRED:
            break
        if not _flag(row, there, taken - used):
            break
        row.sack_at = used
        row.sack_edges = taken - used
        used = taken
        row.frame = frame
        frame += 1
        n += 1
        at = begin
    return at, n, used
