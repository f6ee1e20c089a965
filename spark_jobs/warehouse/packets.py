"""Packets of some users from Parquet into the estimators' record, in user order."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from schemas import PACKETS
from spark_jobs.compiled.arrays import (
    gather,
    group_offsets,
    group_order,
    inverse_order,
    scatter,
    select_span,
    sorted_within_groups,
)
from spark_jobs.estimators.records import NO_SCALE, Packets
from spark_jobs.estimators.sequence import downlink_bytes_before
from spark_jobs.warehouse.files import opened, read_metadata, with_columns
from spark_jobs.warehouse.subscribers import split_users

ORDERING = ("user", "server", "ts")
"""Columns read first: they tell which packets are wanted, and their order."""
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
PRESENCE = {
    "is_tcp": "tcp_flags",
    "sack_permitted": "sack_permitted",
    "has_timestamps": "ts_val",
    "options_cut": "options_cut",
}
"""Columns of the record that say whether a packet has a value, and of which column."""
NOBODY = np.int32(-1)
HELD_ROW_GROUPS = 6000
"""Row groups of which a process holds what their files say, some 20 kB each: as many as a day of
288 captures in 16 buckets has."""
_held: dict[Path, pq.FileMetaData] = {}


@dataclass(frozen=True)
class RowGroups:
    """Some row groups of a packets file, which hold one capture's packets; of which buckets they
    are read, where they hold others, too."""

    path: Path
    numbers: tuple[int, ...]
    capture: str
    partitions: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Names:
    """What the numbers in a Packets record stand for; addresses: each user's address."""

    users: list[str]
    addresses: list[str]
    servers: list[str]
    captures: list[str]


@dataclass(frozen=True)
class Span:
    """From when until when packets are wanted (µs since 1970): those of a day, and around it those
    of users who are not silent for long at that end of it; silence_us: how long."""

    begin: int
    end: int
    silence_us: int
    until: int

    def of_users(self, user: np.ndarray, ts: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """int32[packets]: the user of each that is wanted, else NOBODY; user: whose each is, as a
        place in `wanted`, bool[users], or NOBODY."""
        return select_span(user, ts, wanted, self.begin, self.end, self.silence_us, self.until)


def read_packets(
    groups: Sequence[RowGroups],
    span: Span,
    wanted_user: Callable[[str], bool] = lambda address: True,
    leases: pa.Table | None = None,
    called: Callable[[pa.Table, Path], pa.Table] = lambda rows, path: rows,
) -> tuple[Packets, Names]:
    """Packets of a span of the users whose address is wanted.

    leases: rows of that table, by which an address is several users; called: a file's rows with
    users called as they are to be (see periods.py).

    The files are read twice, first for who and when, then for the rest: each row group's values go
    straight to their places in user order, and no more than one row group is held beside them.
    """
    paths = (group.path for group in groups for _ in group.numbers)
    tables = [*map(called, _row_groups(groups, ORDERING), paths)]
    table = pa.concat_tables(tables)
    ts = _values(table["ts"])
    user, addresses = _codes(table["user"])
    server, servers = _codes(table["server"])
    wanted = np.array([wanted_user(address) for address in addresses], bool)
    if any(group.partitions is not None for group in groups):
        user = np.where(np.concatenate(list(_in_partitions(groups))), user, NOBODY)
    users = addresses
    if leases is not None and len(leases):
        mine = (user >= 0) & wanted[user]
        user = np.where(mine, user, NOBODY)
        user[mine], users, addresses = split_users(user[mine], ts[mine], addresses, leases)
        wanted = np.ones(len(users), bool)
    user = span.of_users(user, ts, wanted)
    first = group_offsets(user, len(users))
    order = _user_order(user, first, ts)
    captures = sorted({group.capture for group in groups})
    places = inverse_order(order, len(user))
    columns = _in_places(_wanted(groups, [len(part) for part in tables], places), captures)
    packets = Packets(
        **columns,
        first=first,
        user=gather(user, order),
        server=gather(server, order),
        ts=gather(ts, order),
        downlink_bytes_before=downlink_bytes_before(columns["downlink"], columns["ip_len"]),
        out_of_window=np.zeros(len(order), np.bool_),
    )
    return packets, Names(users, addresses, servers, captures)


def _wanted(
    groups: Sequence[RowGroups], rows: list[int], places: np.ndarray
) -> list[tuple[RowGroups, np.ndarray]]:
    """The row groups, one each, that have wanted packets (see _in_places) and their places; where
    none has, the first one. rows: how many each row group has."""
    each = [replace(group, numbers=(n,)) for group in groups for n in group.numbers]
    parts = list(zip(each, np.split(places, np.cumsum(rows)[:-1]), strict=True))
    return [(group, to) for group, to in parts if (to >= 0).any()] or parts[:1]


def _in_partitions(groups: Sequence[RowGroups]) -> Iterator[np.ndarray]:
    """bool[rows] of each row group: which rows are of the group's buckets."""
    for group in groups:
        for rows in _row_groups([group], ["user_partition"]):
            wanted = group.partitions
            yield np.isin(rows["user_partition"], wanted) if wanted else np.ones(len(rows), bool)


def _row_groups(groups: Sequence[RowGroups], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Some columns of each row group."""
    for path, of_file in groupby(groups, attrgetter("path")):
        with opened(path, metadata=_metadata(path), read_dictionary=["user", "server"]) as file:
            for group in of_file:
                for number in group.numbers:
                    rows = file.read_row_group(number, columns=list(columns), use_threads=False)
                    yield with_columns(rows, PACKETS, columns)


def _metadata(path: Path) -> pq.FileMetaData:
    """A published file's, which never changes; each task reads a little of every file. Those of the
    last files are held."""
    found = _held.pop(path, None) or read_metadata(path)
    _held[path] = found
    while len(_held) > 1 and sum(each.num_row_groups for each in _held.values()) > HELD_ROW_GROUPS:
        del _held[next(iter(_held))]
    return found


def _user_order(user: np.ndarray, first: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """int32[packets wanted]: the packets by (user, time), of one time as they were read."""
    order = group_order(user, first)
    in_order = gather(ts, order)
    if not sorted_within_groups(first, in_order):
        order = order[np.argsort(in_order, kind="stable")]
        order = order[group_order(user[order], first)]
    return order


def _in_places(
    parts: Sequence[tuple[RowGroups, np.ndarray]], captures: list[str]
) -> dict[str, np.ndarray]:
    """The record's columns but for those that ORDERING tells, of row groups with int32[rows] each
    packet's place in user order, -1 where it is not wanted."""
    groups, places = zip(*parts, strict=True)
    count = sum(np.count_nonzero(to >= 0) for to in places)
    types = {c.name: c.type.to_pandas_dtype() for c in PACKETS.columns if c.name in NUMBERS}
    types |= dict.fromkeys(PRESENCE, np.bool_)
    types |= {"mss": np.uint16, "window_scale": np.int16, "capture": np.int32}
    types |= {"sack_at": np.int64, "sack_count": np.uint8}
    columns = {name: np.empty(count, dtype) for name, dtype in types.items()}
    edges: list[np.ndarray] = []
    edges_read = 0
    capture = [captures.index(group.capture) for group in groups]
    names = dict.fromkeys((*NUMBERS, *PRESENCE.values(), "mss", "window_scale", "sack"))
    for code, to, table in zip(capture, places, _row_groups(groups, list(names)), strict=True):
        values = {name: _values(table[name]) for name in NUMBERS}
        values |= {name: _validity(table[column]) for name, column in PRESENCE.items()}
        scale = _values(table["window_scale"]).astype(np.int16)
        values["window_scale"] = np.where(_validity(table["window_scale"]), scale, NO_SCALE)
        values["mss"] = np.where(_validity(table["mss"]), _values(table["mss"]), 0)
        values["capture"] = np.full(len(table), code, np.int32)
        at, values["sack_count"], items = _lists(table["sack"])
        values["sack_at"] = at + edges_read
        for name, column in values.items():
            scatter(column, to, columns[name])
        edges.append(items)
        edges_read += len(items)
    return columns | {"sack_edges": np.concatenate(edges)}


def _codes(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    """(int32[rows], texts): each row's text, as a place among the texts."""
    column = column.unify_dictionaries()
    codes = np.concatenate([_chunk(chunk.indices) for chunk in column.chunks])
    return codes, column.chunk(0).dictionary.to_pylist()


def _values(column: pa.ChunkedArray) -> np.ndarray:
    """The column's values; where it is null, anything."""
    return _joined([_chunk(chunk) for chunk in column.chunks])


def _validity(column: pa.ChunkedArray) -> np.ndarray:
    return _joined([_chunk(chunk.is_valid()) for chunk in column.chunks])


def _joined(arrays: list[np.ndarray]) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _lists(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(where each row's list begins, its length, the items); a null is an empty list."""
    at, counts, items, begin = [], [], [], 0
    for chunk in column.chunks:
        offsets = chunk.offsets.to_numpy().astype(np.int64)
        values = chunk.values.to_numpy()[offsets[0] : offsets[-1]]
        at.append(offsets[:-1] - offsets[0] + begin)
        counts.append(np.diff(offsets).astype(np.uint8))
        items.append(values)
        begin += len(values)
    return np.concatenate(at), np.concatenate(counts), np.concatenate(items).astype(np.uint32)


def _chunk(chunk: pa.Array) -> np.ndarray:
    if pa.types.is_boolean(chunk.type):
        bits = np.frombuffer(chunk.buffers()[1], np.uint8)
        start = chunk.offset
        return np.unpackbits(bits, bitorder="little")[start : start + len(chunk)].view(bool)
    dtype = np.int64 if pa.types.is_timestamp(chunk.type) else chunk.type.to_pandas_dtype()
    data = chunk.buffers()[1]
    if data is None:
        return np.zeros(len(chunk), dtype)
    return np.frombuffer(data, dtype)[chunk.offset : chunk.offset + len(chunk)]
