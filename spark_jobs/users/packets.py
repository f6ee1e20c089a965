"""Packets of some users, read from Parquet files into the estimators' record in user order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from schemas import PACKETS
from schemas.arrow_types import ARROW_TYPES
from spark_jobs.compiled.arrays import (
    gather,
    group_offsets,
    group_order,
    inverse_order,
    scatter,
    select_span,
    sorted_within_groups,
)
from spark_jobs.estimators.quic.packets import FORMS, NO_SPIN, QuicPackets, no_quic
from spark_jobs.estimators.records import NO_SCALE, Packets
from spark_jobs.estimators.sequence import downlink_bytes_before
from spark_jobs.users.subscribers import split_users
from spark_jobs.warehouse.row_groups import RowGroup, read_columns

ORDER_COLUMNS = ("user", "server", "ts")
"""The columns that are read first: they determine which packets are wanted, and their order."""
NUMBERS = (
    "frame",
    "user_port",
    "server_port",
    "downlink",
    "ip_len",
    "ip_id",
    "ttl",
    "tcp_flags",
    "seq",
    "ack",
    "window",
    "payload_len",
    "ts_val",
    "ts_ecr",
    "clock_steps",
)
PRESENCE_COLUMNS = {
    "is_tcp": "tcp_flags",
    "sack_permitted": "sack_permitted",
    "has_timestamps": "ts_val",
    "options_cut": "options_cut",
}
"""The record's columns that say whether a packet has a value, and the column of that value."""
NOBODY = np.int32(-1)


@dataclass(frozen=True)
class Names:
    """The texts for the numbers in a Packets record; addresses: each user's address."""

    users: list[str]
    addresses: list[str]
    servers: list[str]
    captures: list[str]


@dataclass(frozen=True)
class Span:
    """The time span of the wanted packets (µs since 1970).

    The packets of a day are wanted. Around it, packets of a user are wanted as long as the user is
    not silent for silence_us at that end of the day.
    """

    begin: int
    end: int
    silence_us: int
    until: int

    def wanted_users(self, user: np.ndarray, ts: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Return int32[packets]: the user of each wanted packet, NOBODY for the others.

        user: int32[packets], each packet's user as an index into `wanted`, or NOBODY. wanted:
        bool[users].
        """
        return select_span(user, ts, wanted, self.begin, self.end, self.silence_us, self.until)


def read_packets(
    groups: Sequence[RowGroup],
    span: Span,
    wanted_user: Callable[[str], bool] = lambda address: True,
    leases: pa.Table | None = None,
    rename_users: Callable[[pa.Table, Path], pa.Table] = lambda rows, path: rows,
) -> tuple[Packets, Names, QuicPackets]:
    """Return the packets of a span, of the users whose address is wanted, and QUIC's among them.

    leases: rows of that table; they split an address into several users. rename_users: returns a
    file's rows with the users' names of the wanted day (see periods.py).

    The files are read twice: first the users and times, then the rest. Each row group's values go
    straight to their places in user order. Beside them, no more than one row group is held in
    memory.
    """
    paths = (group.path for group in groups)
    table = pa.concat_tables(map(rename_users, read_columns(groups, ORDER_COLUMNS), paths))
    ts = _values(table["ts"])
    user, addresses = _dictionary_codes(table["user"])
    server, servers = _dictionary_codes(table["server"])
    wanted = np.array([wanted_user(address) for address in addresses], bool)
    if any(group.wanted is not None for group in groups):
        user = np.where(np.concatenate([*map(_in_partitions, groups)]), user, NOBODY)
    users = addresses
    if leases is not None and len(leases):
        is_wanted = (user >= 0) & wanted[user]
        user = np.where(is_wanted, user, NOBODY)
        user[is_wanted], users, addresses = split_users(
            user[is_wanted], ts[is_wanted], addresses, leases
        )
        wanted = np.ones(len(users), bool)
    user = span.wanted_users(user, ts, wanted)
    first = group_offsets(user, len(users))
    order = _user_order(user, first, ts)
    captures = sorted({group.capture for group in groups})
    places = inverse_order(order, len(user))
    columns, quic = _read_columns(_wanted_row_groups(groups, places), captures)
    packets = Packets(
        **columns,
        first=first,
        user=gather(user, order),
        server=gather(server, order),
        ts=gather(ts, order),
        downlink_bytes_before=downlink_bytes_before(columns["downlink"], columns["ip_len"]),
        out_of_window=np.zeros(len(order), np.bool_),
    )
    return packets, Names(users, addresses, servers, captures), _quic_packets(packets, quic)


def _wanted_row_groups(
    groups: Sequence[RowGroup], places: np.ndarray
) -> list[tuple[RowGroup, np.ndarray]]:
    """Return the row groups that have wanted packets, with the places of their packets.

    If there is none, returns the first row group. For places see _read_columns.
    """
    ends = np.cumsum([group.rows for group in groups])
    parts = list(zip(groups, np.split(places, ends[:-1]), strict=True))
    return [(group, places_) for group, places_ in parts if (places_ >= 0).any()] or parts[:1]


def _in_partitions(group: RowGroup) -> np.ndarray:
    """Return bool[rows]: whether a packet is of the wanted user partitions."""
    if group.wanted is None:
        return np.ones(group.rows, bool)
    (rows,) = read_columns([group], ["user_partition"])
    return np.isin(rows["user_partition"], group.wanted)


def _user_order(user: np.ndarray, first: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """Return int32[wanted packets]: the packets by user and time.

    Packets of equal times keep the order in which they were read.
    """
    order = group_order(user, first)
    in_order = gather(ts, order)
    if not sorted_within_groups(first, in_order):
        order = order[np.argsort(in_order, kind="stable")]
        order = order[group_order(user[order], first)]
    return order


def _read_columns(
    parts: Sequence[tuple[RowGroup, np.ndarray]], captures: list[str]
) -> tuple[dict[str, np.ndarray], list[tuple[np.ndarray, pa.Table]]]:
    """Return the record's columns, without those that ORDER_COLUMNS give, and QUIC's.

    QUIC's are the places of a row group's packets of QUIC's, and their QUIC columns.

    parts: row groups, each with int32[rows]: a packet's place in user order, -1 if it is not
    wanted.
    """
    groups, places = zip(*parts, strict=True)
    count = sum(np.count_nonzero(target >= 0) for target in places)
    types = {
        c.name: ARROW_TYPES[c.type].to_pandas_dtype() for c in PACKETS.columns if c.name in NUMBERS
    }
    types |= dict.fromkeys(PRESENCE_COLUMNS, np.bool_)
    types |= {"mss": np.uint16, "window_scale": np.int16, "capture": np.int32}
    types |= {"sack_at": np.int64, "sack_count": np.uint8}
    columns = {name: np.empty(count, dtype) for name, dtype in types.items()}
    edges: list[np.ndarray] = []
    edges_read = 0
    capture = [captures.index(group.capture) for group in groups]
    quic: list[tuple[np.ndarray, pa.Table]] = []
    own = (*NUMBERS, *PRESENCE_COLUMNS.values(), "mss", "window_scale", "sack", *PACKETS.sparse)
    names = dict.fromkeys(own)
    for code, target, table in zip(capture, places, read_columns(groups, list(names)), strict=True):
        values = {name: _values(table[name]) for name in NUMBERS}
        values |= {name: _validity(table[column]) for name, column in PRESENCE_COLUMNS.items()}
        scale = _values(table["window_scale"]).astype(np.int16)
        values["window_scale"] = np.where(_validity(table["window_scale"]), scale, NO_SCALE)
        values["mss"] = np.where(_validity(table["mss"]), _values(table["mss"]), 0)
        values["capture"] = np.full(len(table), code, np.int32)
        offsets, values["sack_count"], items = _list_items(table["sack"])
        values["sack_at"] = offsets + edges_read
        for name, column in values.items():
            scatter(column, target, columns[name])
        edges.append(items)
        edges_read += len(items)
        if "quic_form" in table.column_names and table["quic_form"].null_count < len(table):
            rows = np.flatnonzero(_validity(table["quic_form"]) & (target >= 0))
            if len(rows):
                quic.append((target[rows], table.select(PACKETS.sparse).take(rows)))
    return columns | {"sack_edges": np.concatenate(edges)}, quic


def _quic_packets(packets: Packets, quic: Sequence[tuple[np.ndarray, pa.Table]]) -> QuicPackets:
    """Return the packets of QUIC's, from their places in user order and their QUIC columns."""
    if not quic:
        return no_quic(len(packets.first) - 1)
    places = np.concatenate([target for target, _ in quic])
    order = np.argsort(places, kind="stable")
    places, table = places[order], pa.concat_tables(rows for _, rows in quic).take(order)
    codes, names = _dictionary_codes(table["quic_form"].dictionary_encode())
    forms = np.array([FORMS.index(name) for name in names], np.uint8)

    def values(name: str, dtype: type, null: int = 0) -> np.ndarray:
        return table[name].cast(pa.int64()).fill_null(null).to_numpy().astype(dtype)

    shared = [name for name in QuicPackets._fields if name in Packets._fields and name != "first"]
    return QuicPackets(
        first=np.searchsorted(places, packets.first),
        **{name: getattr(packets, name)[places] for name in shared},
        form=forms[codes],
        coalesced=values("quic_coalesced", np.uint16),
        has_version=_validity(table["quic_version"]),
        version=values("quic_version", np.uint32),
        spin=values("quic_spin", np.int8, int(NO_SPIN)),
        has_dcid=_validity(table["quic_dcid"]),
        dcid=values("quic_dcid", np.uint32),
        scid=values("quic_scid", np.uint32),
    )


def _dictionary_codes(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    """Return (int32[rows], texts): each row's text, as an index into the texts."""
    column = column.unify_dictionaries()
    codes = np.concatenate([_chunk_values(chunk.indices) for chunk in column.chunks])
    return codes, column.chunk(0).dictionary.to_pylist()


def _values(column: pa.ChunkedArray) -> np.ndarray:
    """Return a column's values; a null has an arbitrary value."""
    return _concatenated([_chunk_values(chunk) for chunk in column.chunks])


def _validity(column: pa.ChunkedArray) -> np.ndarray:
    return _concatenated([_chunk_values(chunk.is_valid()) for chunk in column.chunks])


def _concatenated(arrays: list[np.ndarray]) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _list_items(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (start of each row's list, its length, all items); a null is an empty list."""
    starts, counts, items, begin = [], [], [], 0
    for chunk in column.chunks:
        offsets = chunk.offsets.to_numpy().astype(np.int64)
        values = chunk.values.to_numpy()[offsets[0] : offsets[-1]]
        starts.append(offsets[:-1] - offsets[0] + begin)
        counts.append(np.diff(offsets).astype(np.uint8))
        items.append(values)
        begin += len(values)
    return np.concatenate(starts), np.concatenate(counts), np.concatenate(items).astype(np.uint32)


def _chunk_values(chunk: pa.Array) -> np.ndarray:
    if pa.types.is_boolean(chunk.type):
        bits = np.frombuffer(chunk.buffers()[1], np.uint8)
        start = chunk.offset
        return np.unpackbits(bits, bitorder="little")[start : start + len(chunk)].view(bool)
    dtype = np.int64 if pa.types.is_timestamp(chunk.type) else chunk.type.to_pandas_dtype()
    data = chunk.buffers()[1]
    if data is None:
        return np.zeros(len(chunk), dtype)
    return np.frombuffer(data, dtype)[chunk.offset : chunk.offset + len(chunk)]
