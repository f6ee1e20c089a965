"""QUIC's headers: what a datagram shows without any key.

Sources: RFC 8999 (what holds for all versions), RFC 9000, 17 (version 1), RFC 9369 (version 2).
Nothing is decrypted. No connection ID is stored: of each, only a hash of its first bytes is, by
which the connections of one user differ.
"""

import numpy as np

from schemas.packets import QUIC_COALESCED, QUIC_FORMS
from spark_jobs.capture.hashes import fnv1a
from spark_jobs.capture.link import be16
from spark_jobs.capture.record import (
    HAS_QUIC,
    HAS_QUIC_COALESCED,
    HAS_QUIC_DCID,
    HAS_QUIC_LENGTH,
    HAS_QUIC_LONG,
    HAS_QUIC_SPIN,
    QUIC_FIXED_BIT,
    QUIC_SPIN_SET,
)
from spark_jobs.compiled import inlined, inner

INITIAL, ZERO_RTT, HANDSHAKE, RETRY, VERSION_NEGOTIATION, ONE_RTT, UNREACHABLE = range(
    len(QUIC_FORMS)
)
"""Codes of the forms: indices of QUIC_FORMS."""
MORE = np.uint16(QUIC_COALESCED["not captured"])

LONG_HEADER, FIXED_BIT, SPIN_BIT = 0x80, 0x40, 0x20
VERSION_1, VERSION_2, VERSION_2_DRAFT = 1, 0x6B3343CF, 0x709A50C4
MAX_CONNECTION_ID = 20
"""Maximum length of a connection ID (B), RFC 9000, 17.2."""
FRAGMENTATION_NEEDED = 4
"""ICMP's code of a message that says how large a datagram may be (RFC 1191)."""
MIN_SHORT_BYTES = 21
"""Minimum length of a packet with a short header (B), RFC 9000, 10.3."""
MAX_LENGTH = 0xFFFF
"""Maximum value of quic_length: no datagram is longer."""
HASHED_BYTES, SHORT_HASHED_BYTES = 8, 4
"""Bytes of a connection ID that its hash covers, if it has as many."""


@inlined
def is_version(version):
    """Return whether a number is a version of QUIC that is in use.

    These are versions 1 and 2, the drafts of both, Facebook's (mvfst), Google's with long headers
    (Q046 to Q059, T048 to T059), and those that ask for version negotiation (0x?a?a?a?a).
    """
    if version == VERSION_1 or version == VERSION_2 or version == VERSION_2_DRAFT:
        return True
    if version >> 8 == 0xFF0000 or version >> 8 == 0xFF0200 or version >> 4 == 0xFACEB00:
        return True
    if version & 0x0F0F0F0F == 0x0A0A0A0A:
        return True
    text = version >> 16
    return (text == 0x5130 or text == 0x5430) and (version & 0xF0F0) == 0x3030


@inner
def _has_id_lengths(version):
    """Return whether connection IDs have a byte for their length each, as in RFC 8999.

    Before version 22 of the drafts, and before Google's Q049, one byte had both lengths.
    """
    if 0xFF000000 < version < 0xFF000016:
        return False
    return version >> 16 not in (0x5130, 0x5430) or not 0x3030 < version & 0xFFFF < 0x3439


@inner
def long_form(first, version):
    """Return the form of a packet with a long header, by its first byte and its version."""
    kind = np.int64(first) >> 4 & 3
    is_version_2 = version == VERSION_2 or version == VERSION_2_DRAFT
    return (kind + 3) & 3 if is_version_2 else kind


@inner
def connection_id_hash(buf, pos, length):
    """Return the 32-bit FNV-1a hash of the first HASHED_BYTES of a connection ID; 0 if it is empty.

    A connection ID of less than HASHED_BYTES counts as one of SHORT_HASHED_BYTES.
    """
    used = HASHED_BYTES if length >= HASHED_BYTES else min(length, SHORT_HASHED_BYTES)
    return fnv1a(buf, pos, pos + used) if used else np.uint32(0)


@inner
def _varint(buf, pos, end):
    """Return (value, position after it) of a variable-length integer; -1 if the capture cut it."""
    if pos >= end:
        return np.int64(-1), pos
    size = 1 << np.int64(buf[pos] >> 6)
    if pos + size > end:
        return np.int64(-1), pos
    value = np.int64(buf[pos] & 0x3F)
    for i in range(1, size):
        value = value << 8 | np.int64(buf[pos + i])
    return value, pos + size


@inner
def _length(buf, pos, end, version):
    """Return the Length field of the packet with the long header at `pos`, and the position after.

    The length is -1 if there is none, and if the capture cut it off; then the position is `end`.
    """
    form = long_form(buf[pos], version)
    at = pos + 6
    if form == RETRY or at > end:
        return np.int64(-1), end
    at += np.int64(buf[pos + 5])
    if at >= end:
        return np.int64(-1), end
    at += 1 + np.int64(buf[at])
    if form == INITIAL:
        token, at = _varint(buf, at, end)
        if token < 0:
            return np.int64(-1), end
        at += token
    length, at = _varint(buf, at, end)
    return length, at if length >= 0 else end


@inner
def _coalesced(buf, pos, end, datagram_end, version):
    """Return the forms of the packets that follow the one at `pos` in its datagram, as bits."""
    forms = np.uint16(0)
    while long_form(buf[pos], version) != RETRY:
        length, pos = _length(buf, pos, end, version)
        pos += max(length, 0)
        if pos >= datagram_end:
            return forms
        if pos >= end:
            return forms | MORE
        if buf[pos] == 0:
            return forms  # padding
        if buf[pos] & LONG_HEADER == 0:
            return forms | np.uint16(1 << ONE_RTT)
        forms |= np.uint16(1 << long_form(buf[pos], version))
    return forms


@inner
def parse_quic(buf, pos, end, datagram_bytes, row):
    """Parse the QUIC header at `pos`, where a UDP payload begins, into `row` if there is one.

    datagram_bytes: length of the UDP payload. `quic_flows` decides whether it is one.
    """
    datagram_end = pos + datagram_bytes
    if pos >= end or datagram_bytes < MIN_SHORT_BYTES - SHORT_HASHED_BYTES:
        return
    first = buf[pos]
    if first & FIXED_BIT:
        row.has |= QUIC_FIXED_BIT
    if first & LONG_HEADER == 0:
        if datagram_bytes >= MIN_SHORT_BYTES:
            row.quic_form = ONE_RTT
            row.has |= HAS_QUIC | HAS_QUIC_SPIN
            if first & SPIN_BIT:
                row.has |= QUIC_SPIN_SET
            if pos + 1 + HASHED_BYTES <= end:
                row.quic_dcid = connection_id_hash(buf, pos + 1, HASHED_BYTES)
                row.quic_short_dcid = connection_id_hash(buf, pos + 1, SHORT_HASHED_BYTES)
            else:
                row.quic_dcid = row.quic_short_dcid = 0
        return
    if pos + 7 > end:
        return
    version = be16(buf, pos + 1) << 16 | be16(buf, pos + 3)
    length = np.int64(buf[pos + 5])
    source_pos = pos + 6 + length
    if length > MAX_CONNECTION_ID or source_pos >= end:
        return
    source_length = np.int64(buf[source_pos])
    if source_length > MAX_CONNECTION_ID or source_pos + 1 + source_length > min(end, datagram_end):
        return
    if not _has_id_lengths(version):
        return
    row.quic_form = VERSION_NEGOTIATION if version == 0 else long_form(first, version)
    row.quic_version, row.quic_scid_length = version, source_length
    row.quic_dcid = connection_id_hash(buf, pos + 6, length)
    row.quic_scid = connection_id_hash(buf, source_pos + 1, source_length)
    row.has |= HAS_QUIC | HAS_QUIC_LONG | HAS_QUIC_DCID
    if version != 0:
        row.quic_coalesced = _coalesced(buf, pos, end, datagram_end, version)
        row.has |= HAS_QUIC_COALESCED if row.quic_coalesced else 0
        length, _ = _length(buf, pos, end, version)
        if length >= 0:
            row.quic_length = min(length, MAX_LENGTH)
            row.has |= HAS_QUIC_LENGTH


@inner
def parse_unreachable(buf, pos, end, is_ipv6, row):
    """Parse the ICMP message at `pos` into `row` if a UDP datagram could not be delivered.

    Sources: RFC 792, RFC 4443, 3.1. The ports are those of the datagram, as its receiver's own: the
    message goes the other way.
    """
    inside = pos + 8
    if inside >= end or buf[pos] != (1 if is_ipv6 else 3):
        return
    if not is_ipv6 and buf[pos + 1] == FRAGMENTATION_NEEDED:
        return
    header_bytes = 40 if is_ipv6 else (buf[inside] & 15) * 4
    if header_bytes < 20 or inside + header_bytes + 4 > end:
        return
    if buf[inside] >> 4 != (6 if is_ipv6 else 4):
        return
    if not is_ipv6 and be16(buf, inside + 6) & 0x1FFF:
        return  # a later fragment, which has no ports
    if buf[inside + (6 if is_ipv6 else 9)] != 17:
        return
    ports = inside + header_bytes
    row.user_port, row.server_port = be16(buf, ports + 2), be16(buf, ports)
    row.quic_form = UNREACHABLE
    row.has |= HAS_QUIC
