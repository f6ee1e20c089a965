"""Packets of one bucket from Parquet into arrays, in the two orders the estimators ask for."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.arrays import group_offsets, group_order, sorted_within_groups
from spark_jobs.capture.users import user_bucket
from spark_jobs.leases import split_users

COLUMNS = (
    "frame",
    "ts",
    "user",
    "user_port",
    "server",
    "server_port",
    "downlink",
    "ip_len",
    "tcp_flags",
    "seq",
    "ack",
    "window",
    "payload_len",
    "window_scale",
    "sack_permitted",
    "ts_val",
    "ts_ecr",
    "sack",
)
STRINGS = ("user", "server")


@dataclass(frozen=True)
class RowGroups:
    """Some row groups of a packets file, which holds one capture's packets."""

    path: Path
    numbers: tuple[int, ...]
    capture: str


@dataclass
class Packets:
    """Packets in user order (see estimators). columns: arrays by name, `user`, `server` and
    `capture` as codes into `users`, `servers` and `captures`, a packet's SACK block edges as
    sack_edges[sack_at : sack_at + sack_count]; valid: which rows have a value, for columns with
    nulls; addresses: each user's address."""

    columns: dict[str, np.ndarray]
    valid: dict[str, np.ndarray]
    sack_edges: np.ndarray
    users: list[str]
    addresses: list[str]
    servers: list[str]
    captures: list[str]
    user_first: np.ndarray

    def __len__(self) -> int:
        return len(self.columns["ts"])


def read_packets(
    groups: Sequence[RowGroups],
    from_us: int,
    until_us: int,
    part: tuple[int, int],
    leases: pa.Table | None = None,
) -> Packets:
    """Packets stamped in [from_us, until_us) of one part of the users.

    part: (number, parts); a bucket too large for a worker is read in several parts. leases: rows
    of that table, by which an address is several users.
    """
    tables = []
    captures = sorted({group.capture for group in groups})
    for path, of_file in groupby(groups, attrgetter("path")):
        with pq.ParquetFile(path, read_dictionary=list(STRINGS)) as file:
            for group in of_file:
                code = captures.index(group.capture)
                for number in group.numbers:
                    table = file.read_row_group(number, columns=list(COLUMNS), use_threads=False)
                    table = _in_part(_in_time(table, from_us, until_us), part)
                    codes = pa.array(np.full(len(table), code, np.int32))
                    tables.append(table.append_column("capture", codes))
    tables = [table for table in tables if len(table)]
    return _in_user_order(pa.concat_tables(tables), captures, leases) if tables else _none()


def _none() -> Packets:
    return Packets(
        {name: np.zeros(0, np.int64) for name in COLUMNS},
        {},
        np.zeros(0, np.uint32),
        [],
        [],
        [],
        [],
        np.zeros(1, np.int64),
    )


def _in_time(table: pa.Table, from_us: int, until_us: int) -> pa.Table:
    ts = _values(table["ts"])
    if ts.min() >= from_us and ts.max() < until_us:
        return table
    return table.filter(pa.array((ts >= from_us) & (ts < until_us)))


def _in_part(table: pa.Table, part: tuple[int, int]) -> pa.Table:
    number, parts = part
    if parts == 1 or not len(table):
        return table
    users = table["user"].combine_chunks()
    ours = np.array(
        [user_bucket(f"part {key}", parts) == number for key in users.dictionary.to_pylist()], bool
    )
    return table.filter(pa.array(ours[users.indices.to_numpy()]))


def _in_user_order(table: pa.Table, captures: list[str], leases: pa.Table | None) -> Packets:
    columns, valid, texts = {}, {}, {}
    for name in (*COLUMNS, "capture"):
        column = table[name]
        if name in STRINGS:
            column = column.unify_dictionaries()
            texts[name] = column.chunk(0).dictionary.to_pylist()
            columns[name] = np.concatenate([_chunk(chunk.indices) for chunk in column.chunks])
            continue
        if name == "sack":
            columns["sack_at"], columns["sack_count"], edges = _lists(column)
            continue
        if name in ("sack_permitted", "window_scale", "ts_val", "ts_ecr") or column.null_count:
            valid[name] = _validity(column)
        columns[name] = _values(column)
    users = addresses = texts["user"]
    if leases is not None and len(leases):
        columns["user"], users, addresses = split_users(
            columns["user"], columns["ts"], addresses, leases
        )
    first = group_offsets(columns["user"], len(users))
    order = group_order(columns["user"], first)
    ts = columns["ts"][order]
    if not sorted_within_groups(first, ts):
        order = order[np.argsort(ts, kind="stable")]
        order = order[group_order(columns["user"][order], first)]
    return Packets(
        {name: values[order] for name, values in columns.items()},
        {name: values[order] for name, values in valid.items()},
        edges,
        users,
        addresses,
        texts["server"],
        captures,
        first,
    )


def _values(column: pa.ChunkedArray) -> np.ndarray:
    """The column's values; where it is null, anything."""
    return np.concatenate([_chunk(chunk) for chunk in column.chunks])


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
        return np.unpackbits(bits, bitorder="little")[start : start + len(chunk)].astype(bool)
    dtype = np.int64 if pa.types.is_timestamp(chunk.type) else chunk.type.to_pandas_dtype()
    data = chunk.buffers()[1]
    if data is None:
        return np.zeros(len(chunk), dtype)
    return np.frombuffer(data, dtype)[chunk.offset : chunk.offset + len(chunk)]


def _validity(column: pa.ChunkedArray) -> np.ndarray:
    return np.concatenate([_chunk(chunk.is_valid()) for chunk in column.chunks])
