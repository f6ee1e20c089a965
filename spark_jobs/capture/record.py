"""The record of one packet in the reader: schemas.PACKETS before sorting, and what is known of it.

A row of UDP has no use for TCP's fields, so its own take their places: see OF_UDP.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from schemas import PACKETS
from schemas.arrow_types import ARROW_TYPES
from schemas.packets import QUIC
from schemas.table import TIMESTAMP

HAS_PORTS, HAS_IP_ID, HAS_TCP, HAS_MSS, HAS_WINDOW_SCALE = 1, 2, 4, 8, 16
HAS_SACK_PERMITTED, HAS_TIMESTAMPS, HAS_SACK, HAS_OPTIONS_CUT = 32, 64, 128, 256
HAS_QUIC, HAS_QUIC_LONG, HAS_QUIC_DCID, HAS_QUIC_SPIN, QUIC_SPIN_SET = 512, 1024, 2048, 4096, 8192
HAS_QUIC_COALESCED, QUIC_FIXED_BIT, HAS_QUIC_LENGTH = 16384, 32768, 65536
"""Flags in ROW's `has`: of columns that are not null, and of QUIC's bits that are set."""
NO_QUIC = 0xFFFFFFFF - (2 * HAS_QUIC_LENGTH - HAS_QUIC)
"""All flags but those of QUIC, which are the last ones."""
BOOLEAN_COLUMNS = {"sack_permitted": HAS_SACK_PERMITTED, "options_cut": HAS_OPTIONS_CUT}
"""Columns that are true or null, with the flag of each."""
NUMERIC_COLUMNS = {
    HAS_PORTS: ("user_port", "server_port"),
    HAS_IP_ID: ("ip_id",),
    HAS_TCP: ("tcp_flags", "seq", "ack", "window", "payload_len"),
    HAS_MSS: ("mss",),
    HAS_WINDOW_SCALE: ("window_scale",),
    HAS_TIMESTAMPS: ("ts_val", "ts_ecr"),
}
"""Numeric columns by their flag: a packet has either all columns of a flag or none."""
QUIC_COLUMNS = {
    "quic_form": HAS_QUIC,
    "quic_coalesced": HAS_QUIC_COALESCED,
    "quic_version": HAS_QUIC_LONG,
    "quic_dcid": HAS_QUIC_DCID,
    "quic_scid": HAS_QUIC_LONG,
    "quic_length": HAS_QUIC_LENGTH,
}
"""QUIC's columns, but the spin bit, with the flag of each."""

OF_UDP = {
    "content": "payload_len",
    "quic_form": "window_scale",
    "quic_coalesced": "mss",
    "quic_version": "seq",
    "quic_dcid": "ack",
    "quic_scid": "ts_val",
    "quic_short_dcid": "ts_val",
    "quic_scid_length": "window",
    "quic_length": "ts_ecr",
}
"""Fields of a row of UDP, and the field of TCP in whose place each is.

content: hash of the payload's first bytes, 0 if there are too few. Only duplicates.py needs it.
quic_dcid, quic_short_dcid: of a short header, two guesses of the destination connection ID's hash,
    for an ID of eight bytes or more, and for one of four to seven
quic_scid_length: of a long header, the length of the source connection ID (B)
"""
FRAGMENT_COLUMNS = ("datagram_id", "fragment", "header_len")
"""Fields that only the joining of fragments needs (see fragments.py)."""
MORE_FRAGMENTS, FRAGMENT_OFFSET = 0x2000, 0x1FFF
_OWN_FIELDS = {
    "user": "i4",
    "server": "i4",
    "sack_offset": "i4",
    "datagram_id": "u4",
    "has": "u4",
    "fragment": "u2",
    "header_len": "u2",
    "sack_edges": "u1",
}
"""Fields that are no columns of the table, or stand for one of them."""


def _row_type() -> np.dtype:
    """Return the type of ROW: the numbers among the table's columns, and the fields of its own."""
    other = {*BOOLEAN_COLUMNS, *QUIC, "sack", "vlan", "user_partition"}
    types = {"ts": np.dtype("i8")} | {
        column.name: np.dtype(ARROW_TYPES[column.type].to_pandas_dtype())
        for column in PACKETS.columns
        if column.name not in other and column.type not in ("string", TIMESTAMP)
    }
    types |= {name: np.dtype(kind) for name, kind in _OWN_FIELDS.items()}
    apart = np.dtype(sorted(types.items(), key=lambda item: -item[1].itemsize), align=True)
    fields: Mapping[str, Any] = apart.fields or {}
    places = {name: name for name in types} | OF_UDP
    formats, offsets = zip(*(fields[place][:2] for place in places.values()), strict=True)
    joined: Any = {"names": [*places], "formats": formats, "offsets": offsets}
    return np.dtype(joined | {"itemsize": apart.itemsize}, align=True)


ROW = _row_type()
"""A packet before sorting.

user, server: numbers in an AddressTable
sack_offset, sack_edges: index of the first SACK edge in a separate list, and number of edges
has: flags of the columns that are not null
fragment: 0 for a packet that is no fragment. Otherwise its position in the datagram, as in IPv4's
    flags and offset: units of 8 bytes, with MORE_FRAGMENTS if other fragments follow.
datagram_id: identification that all fragments of a datagram share
header_len: bytes before the fragment's data (B), including IPv6's fragment header; 0 if unknown

Without a fragment, the values of the other FRAGMENT_COLUMNS are undefined. Fields overlap, so a
function of NumPy that joins rows must be given this type.
"""
