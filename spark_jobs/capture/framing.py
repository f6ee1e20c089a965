"""Where each record of a capture file lies: pcap and pcapng.

Formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng. Each walker goes over a window of the
file and stops at its end, when its output is full, or where a record's header cannot be true.
"""

import numpy as np

from spark_jobs.compiled import compiled, inlined, inner

PCAP_MICRO, PCAP_NANO, PCAP_MODIFIED = 0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34
PCAPNG_MAGIC = 0x0A0D0D0A
BYTE_ORDER_MAGIC, BYTE_ORDER_SWAPPED = 0x1A2B3C4D, 0x4D3C2B1A
LARGEST_RECORD = 262_144
LARGEST_BLOCK = 1 << 24
"""pcapng blocks beyond this are taken for corrupt, as Wireshark does."""
LARGEST_INTERFACE = 4096
"""Descriptions beyond this are not looked for where a block's length is wrong."""
PCAP_HEADER_BYTES = 24
MOST_INTERFACES = 4096

# What stopped a walker.
NEED_MORE, FULL, CORRUPT = 0, 1, 2

DAY_S = 86_400
IN_A_ROW, IN_A_ROW_NEAR = 4, 2
"""Records in a row that show where reading can go on: with any time, or near the last sound one."""
AHEAD_BYTES = IN_A_ROW * (LARGEST_RECORD + 24)
"""Where records go on at another time, how far behind them ones near the last are looked for."""
RESYNC_BYTES = 2 * AHEAD_BYTES
"""What a place must have behind it to be judged, unless the file ends before."""

SECTION_HEADER, INTERFACE, PACKET, SIMPLE_PACKET, ENHANCED_PACKET = PCAPNG_MAGIC, 1, 2, 3, 6
PACKETS = (PACKET, SIMPLE_PACKET, ENHANCED_PACKET)
NO_TIME = np.int64(-(2**62))

FRAME = np.dtype(
    [("at", "i4"), ("captured", "i4"), ("on_wire", "u4"), ("link_type", "i4"), ("ts", "i8")]
)
"""A record: its first byte's place in the window, bytes captured and on the wire, link type,
time (µs since 1970)."""


@inlined
def u16(buf, at, big):
    if big:
        return np.uint32(buf[at]) << 8 | np.uint32(buf[at + 1])
    return np.uint32(buf[at + 1]) << 8 | np.uint32(buf[at])


@inlined
def u32(buf, at, big):
    if big:
        return np.int64(u16(buf, at, True)) << 16 | np.int64(u16(buf, at + 2, True))
    return np.int64(u16(buf, at + 2, False)) << 16 | np.int64(u16(buf, at, False))


@inner
def _pcap_lengths(buf, at, big, minor):
    """Captured and wire length; versions before 2.3 wrote them the other way round, and some of
    2.3 too."""
    captured, on_wire = u32(buf, at + 8, big), u32(buf, at + 12, big)
    if minor < 3 or (minor == 3 and captured > on_wire):
        return on_wire, captured
    return captured, on_wire


@inner
def _sound_pcap(buf, at, big, minor, snap):
    """Could a record start here, by its lengths and fraction of a second?"""
    if not 0 < u32(buf, at + 8, big) <= LARGEST_RECORD:
        return False
    captured, on_wire = _pcap_lengths(buf, at, big, minor)
    lengths = 0 < captured <= snap and 0 < on_wire <= LARGEST_RECORD
    return lengths and u32(buf, at + 4, big) < 1_000_000_000


@compiled
def walk_pcap(
    buf, start, end, big, nano, header_bytes, minor, snap, link_type, frames, near_s=-1, ended=True
):
    """Records of a pcap file in buf[start:end] into `frames` (FRAME[n]).

    near_s: seconds since 1970 of the record before, -1 where there is none; ended: whether the
    file ends at `end`. A record that captured more than the snap length or the wire had, or that
    is stamped more than a day from the one before, is believed only where another follows. No
    record is of nothing: lengths of zero are a hole in the file, or the header of a capture put
    behind another.

    Returns (records, place of the first byte not walked, what stopped it).
    """
    n, at = 0, start
    while at + header_bytes <= end:
        seconds, fraction = u32(buf, at, big), u32(buf, at + 4, big)
        captured, on_wire = _pcap_lengths(buf, at, big, minor)
        if captured > LARGEST_RECORD or (captured == 0 and on_wire == 0):
            return n, at, CORRUPT
        following = at + header_bytes + captured
        if following > end:
            break
        jumps = abs(seconds - near_s) > DAY_S
        if captured > on_wire or captured > snap or (jumps and near_s >= 0):
            if following + header_bytes <= end:
                if not _sound_pcap(buf, following, big, minor, LARGEST_RECORD):
                    return n, at, CORRUPT
            elif not ended:
                break
        if n == len(frames):
            return n, at, FULL
        frame = frames[n]
        frame.ts = seconds * 1_000_000 + (fraction // 1000 if nano else fraction)
        frame.at, frame.captured, frame.on_wire = at + header_bytes, captured, on_wire
        frame.link_type = link_type
        n += 1
        at, near_s = following, seconds
    return n, at, NEED_MORE


@inner
def _in_a_row(buf, at, end, big, header_bytes, minor, snap, wanted, ended):
    """How many records within a day follow one another from `at`, up to `wanted`, and where the
    last begins. As many as wanted where they end with the file; 0 where one before `end` cannot be
    true."""
    first_s = u32(buf, at, big)
    n, last = 0, at
    while n < wanted and at + header_bytes <= end:
        if not _sound_pcap(buf, at, big, minor, snap):
            return 0, last
        if abs(u32(buf, at, big) - first_s) > DAY_S:
            return 0, last
        last = at
        at += header_bytes + _pcap_lengths(buf, at, big, minor)[0]
        if at > end:
            break
        n += 1
        if ended and at == end:
            return wanted, last
    return n, last


@inner
def _goes_on(buf, at, end, big, header_bytes, minor, snap, near_s, ended):
    """Could records at about the time of the last sound one go on here?"""
    if near_s < 0 or abs(u32(buf, at, big) - near_s) > DAY_S:
        return False
    n, _ = _in_a_row(buf, at, end, big, header_bytes, minor, snap, IN_A_ROW_NEAR, ended)
    return n == IN_A_ROW_NEAR or (ended and n > 0)


@compiled
def resync_pcap(buf, start, end, big, header_bytes, minor, snap, near_s, ahead, ended):
    """The next place from which records in a row could be true, or -1.

    snap: the file's snap length; near_s: seconds since 1970 of the last sound record, or -1;
    ended: whether the file ends at `end`. Where all records are of one length, places between them
    may look like records, too, of another time: so records at about the same time are looked for
    among them and behind, ahead[0] (int64[1]) bytes far. Each time that is in vain it is halved:
    all searches of a file take time in proportion to it.
    """
    last = end - (header_bytes if ended else RESYNC_BYTES)
    for at in range(start, last + 1):
        if not _sound_pcap(buf, at, big, minor, snap):
            continue
        if _goes_on(buf, at, end, big, header_bytes, minor, snap, near_s, ended):
            return at
        n, fourth = _in_a_row(buf, at, end, big, header_bytes, minor, snap, IN_A_ROW, ended)
        if n < IN_A_ROW:
            continue
        until = max(fourth, at + ahead[0])
        for place in range(at + 1, min(until, end - header_bytes + 1)):
            if _goes_on(buf, place, end, big, header_bytes, minor, snap, near_s, ended):
                return place
        ahead[0] //= 2
        return at
    return -1


@inner
def _ticks_to_us(ticks, resolution, offset_s):
    """resolution: if_tsresol, 10^-n s, or 2^-n s with the top bit set."""
    if resolution & 0x80:
        shift = resolution & 0x7F
        whole = ticks >> shift if shift < 64 else np.uint64(0)
        part = ticks - (whole << shift) if shift < 64 else ticks
        since = np.int64(whole) * 1_000_000 + np.int64(part * 1e6 / 2.0**shift)
        return since + offset_s * 1_000_000
    us = ticks
    for _ in range(resolution, 6):
        us *= np.uint64(10)
    for _ in range(6, resolution):
        us //= np.uint64(10)
    return np.int64(us) + offset_s * 1_000_000


@inner
def _read_interface(buf, at, length, big, interfaces):
    """An Interface Description Block's link type, snap length, time resolution and offset."""
    i = interfaces[0, 0] + 1
    if i >= len(interfaces):
        return False
    interfaces[i, 0] = u16(buf, at + 8, big)
    interfaces[i, 1] = u32(buf, at + 12, big)
    interfaces[i, 2] = 6
    interfaces[i, 3] = 0
    option = at + 16
    while option + 4 <= at + length - 4:
        code, size = u16(buf, option, big), np.int64(u16(buf, option + 2, big))
        if code == 0 or option + 4 + size > at + length - 4:
            break
        if code == 9 and size == 1:
            interfaces[i, 2] = buf[option + 4]
        if code == 14 and size == 8:
            high, low = option + 4 + (0 if big else 4), option + 4 + (4 if big else 0)
            interfaces[i, 3] = u32(buf, high, big) << 32 | u32(buf, low, big)
        option += 4 + (size + 3) // 4 * 4
    interfaces[0, 0] = i
    return True


@inner
def _block(buf, at, big):
    """A block's type, its section's byte order (big-endian or not), and length (0: it cannot be
    true). `big`: the order before it."""
    kind = u32(buf, at, big)
    if kind == SECTION_HEADER:
        big = u32(buf, at + 8, True) == BYTE_ORDER_MAGIC
        if not big and u32(buf, at + 8, False) != BYTE_ORDER_MAGIC:
            return kind, big, np.int64(0)
    length = u32(buf, at + 4, big)
    if length < 12 or length % 4 or length > LARGEST_BLOCK:
        length = np.int64(0)
    return kind, big, length


@compiled
def walk_pcapng(buf, start, end, state, interfaces, frames):
    """Packets of a pcapng file in buf[start:end] into `frames` (FRAME[n]).

    state: int64[2], whether the section is big-endian, and bytes of blocks that are no packets so
    far. interfaces: int64[m, 4], row 0 holds their number, the others link type, snap length, time
    resolution and offset (s) of interface row - 1.
    Returns (records, place of the first byte not walked, what stopped it).
    """
    n, at = 0, start
    while at + 12 <= end:
        kind, big, length = _block(buf, at, state[0] == 1)
        if length == 0:
            return n, at, CORRUPT
        if at + length > end:
            break
        if u32(buf, at + length - 4, big) != length:
            return n, at, CORRUPT
        if kind == SECTION_HEADER:
            state[0] = 1 if big else 0
            interfaces[0, 0] = 0
        elif kind == INTERFACE:
            if length < 20 or not _read_interface(buf, at, length, big, interfaces):
                return n, at, CORRUPT
        elif kind in PACKETS:
            if n == len(frames):
                return n, at, FULL
            if not _read_packet(buf, at, length, kind, big, interfaces, frames[n]):
                return n, at, CORRUPT
            n += 1
        if kind not in PACKETS:
            state[1] += length
        at += length
    return n, at, NEED_MORE


@inner
def _read_packet(buf, at, length, kind, big, interfaces, frame):
    """An enhanced, simple or (obsolete) packet block; False where its lengths cannot be true."""
    fixed = 16 if kind == SIMPLE_PACKET else 32
    if length < fixed:
        return False
    i = np.int64(0)
    if kind == ENHANCED_PACKET:
        i = u32(buf, at + 8, big)
    elif kind == PACKET:
        i = np.int64(u16(buf, at + 8, big))
    if i >= interfaces[0, 0]:
        return False
    link_type, snap = interfaces[i + 1, 0], interfaces[i + 1, 1]
    if kind == SIMPLE_PACKET:
        on_wire = u32(buf, at + 8, big)
        captured = min(on_wire, length - fixed)
        if snap:
            captured = min(captured, snap)
        frame.at, frame.ts = at + 12, NO_TIME
    else:
        captured, on_wire = u32(buf, at + 20, big), u32(buf, at + 24, big)
        ticks = np.uint64(u32(buf, at + 12, big)) << np.uint64(32) | np.uint64(
            u32(buf, at + 16, big)
        )
        frame.at = at + 28
        frame.ts = _ticks_to_us(ticks, interfaces[i + 1, 2], interfaces[i + 1, 3])
    if captured > length - fixed:
        return False
    frame.captured, frame.on_wire, frame.link_type = captured, on_wire, link_type
    return True


@inner
def _whole_block(buf, at, end, big):
    """The length of a block of a known type that ends before `end` and has it at both its ends, or
    0."""
    kind, order, length = _block(buf, at, big)
    known = kind in (SECTION_HEADER, INTERFACE) or kind in PACKETS
    whole = 0 < length <= min(AHEAD_BYTES, end - at)
    return length if known and whole and u32(buf, at + length - 4, order) == length else 0


@compiled
def salvage_pcapng(buf, at, end, state, interfaces):
    """What later blocks need of a block with a wrong length: the section's byte order, and, where
    one of its lengths leads to a whole block, the interface.

    state, interfaces: see walk_pcapng.
    """
    if at + 12 > end:
        return
    kind, magic = u32(buf, at, state[0] == 1), u32(buf, at + 8, False)
    if kind == SECTION_HEADER and magic in (BYTE_ORDER_MAGIC, BYTE_ORDER_SWAPPED):
        state[0] = 1 if magic == BYTE_ORDER_SWAPPED else 0
    if kind == INTERFACE:
        big = state[0] == 1
        first = u32(buf, at + 4, big)
        for length in range(20, min(LARGEST_INTERFACE, end - at - 12) + 1, 4):
            told = length in (first, u32(buf, at + length - 4, big))
            if told and _whole_block(buf, at + length, end, big):
                _read_interface(buf, at, length, big, interfaces)
                return


@compiled
def resync_pcapng(buf, start, end, big, ended):
    """The next place at which a whole block has the same length at both its ends, or -1.

    ended: whether the file ends at `end`.
    """
    for at in range(start, end - (12 if ended else RESYNC_BYTES) + 1):
        if _whole_block(buf, at, end, big):
            return at
    return -1
