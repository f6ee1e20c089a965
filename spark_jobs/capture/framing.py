"""Positions of the records in a capture file: pcap and pcapng.

Formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng. Each walker goes over a window of the
    file. It stops at the window's end, when its output is full, or at an implausible record header.
"""

import numpy as np

from spark_jobs.compiled import compiled, inlined, inner

PCAP_MICRO, PCAP_NANO, PCAP_MODIFIED = 0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34
PCAPNG_MAGIC = 0x0A0D0D0A
BYTE_ORDER_MAGIC, BYTE_ORDER_SWAPPED = 0x1A2B3C4D, 0x4D3C2B1A
MAX_RECORD_BYTES = 262_144
MAX_BLOCK_BYTES = 1 << 24
"""Maximum length of a pcapng block (B): as in Wireshark, longer ones count as corrupt."""
MAX_INTERFACE_BLOCK_BYTES = 4096
"""Maximum length of an interface description that is searched for after a wrong block length (B).
"""
PCAP_HEADER_BYTES = 24
MAX_INTERFACES = 4096

# Reasons why a walker stopped.
NEED_MORE, FULL, CORRUPT = 0, 1, 2

DAY_S = 86_400
CONSECUTIVE_RECORDS, CONSECUTIVE_RECORDS_NEAR = 4, 2
"""Number of consecutive records from which on reading can continue.

The first number holds for records with any timestamp, the second for records with about the
timestamp of the last plausible record.
"""
LOOKAHEAD_BYTES = CONSECUTIVE_RECORDS * (MAX_RECORD_BYTES + 24)
"""Distance in which records near the last timestamp are searched for (B).

The search takes place after records with another timestamp were found.
"""
RESYNC_BYTES = 2 * LOOKAHEAD_BYTES
"""Number of bytes that must follow a position to judge it, unless the file ends before."""

SECTION_HEADER, INTERFACE, PACKET, SIMPLE_PACKET, ENHANCED_PACKET = PCAPNG_MAGIC, 1, 2, 3, 6
PACKETS = (PACKET, SIMPLE_PACKET, ENHANCED_PACKET)
NO_TIMESTAMP = np.int64(-(2**62))

MAGIC = {
    number.to_bytes(4, order)
    for number in (PCAP_MICRO, PCAP_NANO, PCAP_MODIFIED, PCAPNG_MAGIC)
    for order in ("little", "big")
}
"""The first bytes of captures."""

FRAME = np.dtype(
    [("offset", "i4"), ("captured", "i4"), ("on_wire", "u4"), ("link_type", "i4"), ("ts", "i8")]
)
"""A record of a capture file.

offset: position of its first byte in the window
captured, on_wire: number of bytes captured and on the wire
link_type: link type
ts: timestamp (µs since 1970)
"""


@inlined
def u16(buf, pos, big_endian):
    """Return the 16-bit number at `pos`."""
    if big_endian:
        return np.uint32(buf[pos]) << 8 | np.uint32(buf[pos + 1])
    return np.uint32(buf[pos + 1]) << 8 | np.uint32(buf[pos])


@inlined
def u32(buf, pos, big_endian):
    """Return the 32-bit number at `pos`."""
    if big_endian:
        return np.int64(u16(buf, pos, True)) << 16 | np.int64(u16(buf, pos + 2, True))
    return np.int64(u16(buf, pos + 2, False)) << 16 | np.int64(u16(buf, pos, False))


@inner
def _pcap_lengths(buf, pos, big_endian, minor):
    """Return the captured length and the length on the wire.

    Versions before 2.3 have them in the opposite order, and so do some files of version 2.3.
    """
    captured, on_wire = u32(buf, pos + 8, big_endian), u32(buf, pos + 12, big_endian)
    if minor < 3 or (minor == 3 and captured > on_wire):
        return on_wire, captured
    return captured, on_wire


@inner
def _is_plausible_record(buf, pos, big_endian, minor, snap_length):
    """Return whether a record could start at `pos`, by its lengths and its fraction of a second."""
    if not 0 < u32(buf, pos + 8, big_endian) <= MAX_RECORD_BYTES:
        return False
    captured, on_wire = _pcap_lengths(buf, pos, big_endian, minor)
    lengths = 0 < captured <= snap_length and 0 < on_wire <= MAX_RECORD_BYTES
    return lengths and u32(buf, pos + 4, big_endian) < 1_000_000_000


@compiled
def walk_pcap(
    buf,
    start,
    end,
    big_endian,
    nanoseconds,
    header_bytes,
    minor,
    snap_length,
    link_type,
    frames,
    last_s=-1,
    at_eof=True,
):
    """Write the records of a pcap file in buf[start:end] to `frames` (FRAME[n]).

    last_s: timestamp of the record before (seconds since 1970), or -1 if there is none
    at_eof: whether the file ends at `end`

    Two kinds of records are accepted only if another record follows: a record that captured more
    than the snap length or the length on the wire, and a record that is stamped more than a day
    from the one before. Every record has bytes: lengths of zero are a hole in the file, or the
    header of another capture that was appended. A record whose fraction is more than a second has
    no timestamp.

    Returns (number of records, position of the first byte not walked, reason of the stop).
    """
    count, pos = 0, start
    while pos + header_bytes <= end:
        seconds, fraction = u32(buf, pos, big_endian), u32(buf, pos + 4, big_endian)
        captured, on_wire = _pcap_lengths(buf, pos, big_endian, minor)
        if captured > MAX_RECORD_BYTES or (captured == 0 and on_wire == 0):
            return count, pos, CORRUPT
        next_pos = pos + header_bytes + captured
        if next_pos > end:
            break
        jumps = abs(seconds - last_s) > DAY_S
        if captured > on_wire or captured > snap_length or (jumps and last_s >= 0):
            if next_pos + header_bytes <= end:
                if not _is_plausible_record(buf, next_pos, big_endian, minor, MAX_RECORD_BYTES):
                    return count, pos, CORRUPT
            elif not at_eof:
                break
        if count == len(frames):
            return count, pos, FULL
        frame = frames[count]
        frame.ts = seconds * 1_000_000 + (fraction // 1000 if nanoseconds else fraction)
        if fraction > (1_000_000_000 if nanoseconds else 1_000_000):
            frame.ts = NO_TIMESTAMP
        frame.offset, frame.captured, frame.on_wire = pos + header_bytes, captured, on_wire
        frame.link_type = link_type
        count += 1
        pos, last_s = next_pos, seconds
    return count, pos, NEED_MORE


@inner
def _count_consecutive_records(
    buf, pos, end, big_endian, header_bytes, minor, snap_length, max_count, at_eof
):
    """Count the plausible records that follow one another within a day from `pos` on.

    Returns their number, at most `max_count`, and the position of the last one. If they end exactly
    with the file, the number is max_count. If a record before `end` is implausible, the number is
    0.
    """
    first_s = u32(buf, pos, big_endian)
    count, last_pos = 0, pos
    while count < max_count and pos + header_bytes <= end:
        if not _is_plausible_record(buf, pos, big_endian, minor, snap_length):
            return 0, last_pos
        if abs(u32(buf, pos, big_endian) - first_s) > DAY_S:
            return 0, last_pos
        last_pos = pos
        pos += header_bytes + _pcap_lengths(buf, pos, big_endian, minor)[0]
        if pos > end:
            break
        count += 1
        if at_eof and pos == end:
            return max_count, last_pos
    return count, last_pos


@inner
def _continues_at(buf, pos, end, big_endian, header_bytes, minor, snap_length, last_s, at_eof):
    """Return whether records with about the last plausible timestamp continue at `pos`."""
    if last_s < 0 or abs(u32(buf, pos, big_endian) - last_s) > DAY_S:
        return False
    count, _ = _count_consecutive_records(
        buf,
        pos,
        end,
        big_endian,
        header_bytes,
        minor,
        snap_length,
        CONSECUTIVE_RECORDS_NEAR,
        at_eof,
    )
    return count == CONSECUTIVE_RECORDS_NEAR or (at_eof and count > 0)


@compiled
def resync_pcap(
    buf, start, end, big_endian, header_bytes, minor, snap_length, last_s, lookahead, at_eof
):
    """Return the next position from which several records in a row are plausible, or -1.

    snap_length: the file's snap length
    last_s: timestamp of the last plausible record (seconds since 1970), or -1
    lookahead: int64[1], distance of the search described below (B)
    at_eof: whether the file ends at `end`

    If all records have the same length, positions between them may look like records, too, with
    another timestamp. For this reason, records with about the same timestamp are searched for among
    and after them, up to lookahead[0] bytes ahead. Each search without a result halves this
    distance, so that the time of all searches is proportional to the size of the file.
    """
    last_pos = end - (header_bytes if at_eof else RESYNC_BYTES)
    for pos in range(start, last_pos + 1):
        if not _is_plausible_record(buf, pos, big_endian, minor, snap_length):
            continue
        if _continues_at(
            buf, pos, end, big_endian, header_bytes, minor, snap_length, last_s, at_eof
        ):
            return pos
        count, last_record = _count_consecutive_records(
            buf, pos, end, big_endian, header_bytes, minor, snap_length, CONSECUTIVE_RECORDS, at_eof
        )
        if count < CONSECUTIVE_RECORDS:
            continue
        search_end = max(last_record, pos + lookahead[0])
        for candidate in range(pos + 1, min(search_end, end - header_bytes + 1)):
            if _continues_at(
                buf, candidate, end, big_endian, header_bytes, minor, snap_length, last_s, at_eof
            ):
                return candidate
        lookahead[0] //= 2
        return pos
    return -1


@inner
def _ticks_to_us(ticks, resolution, offset_s):
    """Return a pcapng timestamp in µs.

    resolution: the option if_tsresol, 10^-n s, or 2^-n s if the top bit is set
    offset_s: the option if_tsoffset (s)
    """
    if resolution & 0x80:
        shift = resolution & 0x7F
        whole = ticks >> shift if shift < 64 else np.uint64(0)
        part = ticks - (whole << shift) if shift < 64 else ticks
        elapsed_us = np.int64(whole) * 1_000_000 + np.int64(part * 1e6 / 2.0**shift)
        return elapsed_us + offset_s * 1_000_000
    us = ticks
    for _ in range(resolution, 6):
        us *= np.uint64(10)
    for _ in range(6, resolution):
        us //= np.uint64(10)
    return np.int64(us) + offset_s * 1_000_000


@inner
def _read_interface(buf, pos, length, big_endian, interfaces):
    """Append an Interface Description Block to `interfaces`, and return whether it could be read.

    It stores link type, snap length, time resolution and time offset.
    """
    row = interfaces[0, 0] + 1
    if row >= len(interfaces):
        return False
    interfaces[row, 0] = u16(buf, pos + 8, big_endian)
    interfaces[row, 1] = u32(buf, pos + 12, big_endian)
    interfaces[row, 2] = 6
    interfaces[row, 3] = 0
    option_pos = pos + 16
    while option_pos + 4 <= pos + length - 4:
        code, size = (
            u16(buf, option_pos, big_endian),
            np.int64(u16(buf, option_pos + 2, big_endian)),
        )
        if code == 0 or option_pos + 4 + size > pos + length - 4:
            break
        if code == 9 and size == 1:
            interfaces[row, 2] = buf[option_pos + 4]
        if code == 14 and size == 8:
            high, low = (
                option_pos + 4 + (0 if big_endian else 4),
                option_pos + 4 + (4 if big_endian else 0),
            )
            interfaces[row, 3] = u32(buf, high, big_endian) << 32 | u32(buf, low, big_endian)
        option_pos += 4 + (size + 3) // 4 * 4
    interfaces[0, 0] = row
    return True


@inner
def _block_header(buf, pos, big_endian):
    """Return a block's type, the byte order of its section and its length.

    The byte order is whether it is big-endian; the parameter is the byte order before the block.
    The length is 0 if it is implausible.
    """
    block_type = u32(buf, pos, big_endian)
    if block_type == SECTION_HEADER:
        big_endian = u32(buf, pos + 8, True) == BYTE_ORDER_MAGIC
        if not big_endian and u32(buf, pos + 8, False) != BYTE_ORDER_MAGIC:
            return block_type, big_endian, np.int64(0)
    length = u32(buf, pos + 4, big_endian)
    if length < 12 or length % 4 or length > MAX_BLOCK_BYTES:
        length = np.int64(0)
    return block_type, big_endian, length


@compiled
def walk_pcapng(buf, start, end, state, interfaces, frames):
    """Write the packets of a pcapng file in buf[start:end] to `frames` (FRAME[n]).

    state: int64[2], whether the section is big-endian, and the bytes so far of blocks that are no
        packets
    interfaces: int64[m, 4]; row 0 holds their number, row i + 1 the link type, snap length, time
        resolution and time offset (s) of interface i

    Returns (number of records, position of the first byte not walked, reason of the stop).
    """
    count, pos = 0, start
    while pos + 12 <= end:
        block_type, big_endian, length = _block_header(buf, pos, state[0] == 1)
        if length == 0:
            return count, pos, CORRUPT
        if pos + length > end:
            break
        if u32(buf, pos + length - 4, big_endian) != length:
            return count, pos, CORRUPT
        if block_type == SECTION_HEADER:
            state[0] = 1 if big_endian else 0
            interfaces[0, 0] = 0
        elif block_type == INTERFACE:
            if length < 20 or not _read_interface(buf, pos, length, big_endian, interfaces):
                return count, pos, CORRUPT
        elif block_type in PACKETS:
            if count == len(frames):
                return count, pos, FULL
            if not _read_packet(
                buf, pos, length, block_type, big_endian, interfaces, frames[count]
            ):
                return count, pos, CORRUPT
            count += 1
        if block_type not in PACKETS:
            state[1] += length
        pos += length
    return count, pos, NEED_MORE


@inner
def _read_packet(buf, pos, length, block_type, big_endian, interfaces, frame):
    """Read an enhanced, simple or (obsolete) packet block; return False if it is implausible."""
    fixed_bytes = 16 if block_type == SIMPLE_PACKET else 32
    if length < fixed_bytes:
        return False
    interface = np.int64(0)
    if block_type == ENHANCED_PACKET:
        interface = u32(buf, pos + 8, big_endian)
    elif block_type == PACKET:
        interface = np.int64(u16(buf, pos + 8, big_endian))
    if interface >= interfaces[0, 0]:
        return False
    link_type, snap_length = interfaces[interface + 1, 0], interfaces[interface + 1, 1]
    if block_type == SIMPLE_PACKET:
        on_wire = u32(buf, pos + 8, big_endian)
        captured = min(on_wire, length - fixed_bytes)
        if snap_length:
            captured = min(captured, snap_length)
        frame.offset, frame.ts = pos + 12, NO_TIMESTAMP
    else:
        captured, on_wire = u32(buf, pos + 20, big_endian), u32(buf, pos + 24, big_endian)
        ticks = np.uint64(u32(buf, pos + 12, big_endian)) << np.uint64(32) | np.uint64(
            u32(buf, pos + 16, big_endian)
        )
        frame.offset = pos + 28
        frame.ts = _ticks_to_us(ticks, interfaces[interface + 1, 2], interfaces[interface + 1, 3])
    if captured > length - fixed_bytes:
        return False
    frame.captured, frame.on_wire, frame.link_type = captured, on_wire, link_type
    return True


@inner
def _whole_block_length(buf, pos, end, big_endian):
    """Return the length of a whole block of a known type at `pos`, or 0.

    A whole block ends before `end` and has the same length at both of its ends.
    """
    block_type, block_big_endian, length = _block_header(buf, pos, big_endian)
    is_known = block_type in (SECTION_HEADER, INTERFACE) or block_type in PACKETS
    fits = 0 < length <= min(LOOKAHEAD_BYTES, end - pos)
    return (
        length
        if is_known and fits and u32(buf, pos + length - 4, block_big_endian) == length
        else 0
    )


@compiled
def salvage_pcapng(buf, pos, end, state, interfaces):
    """Take from a block with a wrong length what later blocks need.

    This is the byte order of the section and the interface description. The latter is read only if
    one of the block's two lengths leads to a whole block. state, interfaces: see walk_pcapng.
    """
    if pos + 12 > end:
        return
    block_type, magic = u32(buf, pos, state[0] == 1), u32(buf, pos + 8, False)
    if block_type == SECTION_HEADER and magic in (BYTE_ORDER_MAGIC, BYTE_ORDER_SWAPPED):
        state[0] = 1 if magic == BYTE_ORDER_SWAPPED else 0
    if block_type == INTERFACE:
        big_endian = state[0] == 1
        leading_length = u32(buf, pos + 4, big_endian)
        for length in range(20, min(MAX_INTERFACE_BLOCK_BYTES, end - pos - 12) + 1, 4):
            matches = length in (leading_length, u32(buf, pos + length - 4, big_endian))
            if matches and _whole_block_length(buf, pos + length, end, big_endian):
                _read_interface(buf, pos, length, big_endian, interfaces)
                return


@compiled
def resync_pcapng(buf, start, end, big_endian, at_eof):
    """Return the next position of a whole block with the same length at both of its ends, or -1.

    at_eof: whether the file ends at `end`.
    """
    for pos in range(start, end - (12 if at_eof else RESYNC_BYTES) + 1):
        if _whole_block_length(buf, pos, end, big_endian):
            return pos
    return -1
