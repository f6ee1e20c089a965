"""Conversion of packet batches to sorted Arrow tables.

There is one table per user partition and date, sorted by (user, ts). A date with few packets has
one table for all of its user partitions.
"""

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from schemas import PACKETS
from schemas.arrow_types import ARROW_TYPES
from schemas.packets import QUIC_FORMS
from spark_jobs.capture import record
from spark_jobs.capture.reader import PacketBatch
from spark_jobs.capture.users import AddressNames, UserKeys
from spark_jobs.compiled import compiled
from spark_jobs.compiled.arrays import gather, group_offsets, group_order, sorted_within_groups

DAY_US = 86_400_000_000
EPOCH = date(1970, 1, 1)
MIN_PACKETS_TO_SPLIT = 2048
"""Number of packets of a date above which each user partition gets a row group of its own.

A row group costs more to write, to store and to read than this many packets.
"""

COLUMNS = tuple(
    name
    for name in record.ROW.names or ()
    if name not in ("user", *record.FRAGMENT_COLUMNS, *record.OF_UDP)
)
"""Fields that are copied from rows without change."""
_STORED_TYPES = {
    c.name: ARROW_TYPES[c.stored_type].to_pandas_dtype()
    for c in PACKETS.columns
    if c.type != c.stored_type
}
_FLAG_OF_COLUMN = {name: flag for flag, names in record.NUMERIC_COLUMNS.items() for name in names}
_FLAGS = (*record.NUMERIC_COLUMNS, *record.BOOLEAN_COLUMNS.values(), record.HAS_SACK)
"""Flags of the columns that are not null."""


def limit_dates(batch: PacketBatch, days: set[int], max_dates: int) -> tuple[PacketBatch, int]:
    """Drop the packets of new dates once `max_dates` dates were seen.

    days: the dates seen so far, as days since 1970; the batch's dates are added. Returns the
        remaining batch and the number of dropped packets.
    """
    new_days = [day for day in _days(batch.rows) if day not in days]
    if len(days) + len(new_days) <= max_dates:
        days.update(new_days)
        return batch, 0
    days.update(new_days[: max(0, max_dates - len(days))])
    keep = np.isin(batch.rows["ts"] // DAY_US, list(days))
    return batch.select(keep), int(len(keep) - keep.sum())


def _days(rows: np.ndarray) -> list[int]:
    """Return the days of rows, ROW[n], as days since 1970, in ascending order."""
    return np.unique(_day_changes(rows)).tolist()


@compiled
def _day_changes(rows):
    """Return the day of each row that is of another day than the row before: int64[..]."""
    days, count = np.empty(16, np.int64), 0
    begin = end = np.int64(0)
    for i in range(len(rows)):
        ts = rows[i].ts
        if begin <= ts < end:
            continue
        if count == len(days):
            days = np.concatenate((days, days))
        days[count] = ts // DAY_US
        begin = days[count] * DAY_US
        end = begin + DAY_US
        count += 1
    return days[:count].copy()


def split_by_period(batch: PacketBatch, keys: UserKeys) -> Iterator[tuple[PacketBatch, UserKeys]]:
    """Yield the packets of each key period, with the users' keys of that period."""
    periods = [
        (period_keys, list(days))
        for period_keys, days in groupby(
            _days(batch.rows), lambda number: keys.for_day(EPOCH + timedelta(days=number))
        )
    ]
    if len(periods) == 1:
        yield batch, periods[0][0]
        return
    row_days = batch.rows["ts"] // DAY_US
    for period_keys, days in periods:
        yield batch.select(np.isin(row_days, days)), period_keys


def packet_tables(
    batch: PacketBatch, capture: str, partitions: int, names: AddressNames
) -> Iterator[tuple[date, pa.Table]]:
    """Yield the batch's packets as tables of schemas.PACKETS, with the date of each.

    names: those of the batch's addresses; all of its packets are of one key period. There is one
    table per user partition and date, sorted by (user, ts, frame). A date with few packets has one
    table, sorted by user partition first.
    """
    users, partition_of_user, codes = _user_codes(batch, partitions, names)
    order = group_order(codes, group_offsets(codes, len(users)))
    for day, rows_of_day in _split_by_day(batch.rows, order):
        user = gather(codes, rows_of_day)
        user_starts = np.flatnonzero(np.diff(user, prepend=-1))
        cuts = [0]
        if len(rows_of_day) > MIN_PACKETS_TO_SPLIT:
            cuts = user_starts[
                np.flatnonzero(np.diff(partition_of_user[user[user_starts]], prepend=-1))
            ].tolist()
        for low, high in zip(cuts, [*cuts[1:], len(rows_of_day)], strict=True):
            starts = np.append(user_starts[(user_starts >= low) & (user_starts < high)], high) - low
            user_codes = user[low + starts[:-1]]
            yield (
                EPOCH + timedelta(days=day),
                _table(
                    _sorted_columns(batch.rows, rows_of_day[low:high], starts),
                    batch,
                    capture,
                    np.repeat(partition_of_user[user_codes], np.diff(starts)),
                    users[user_codes],
                    names,
                ),
            )


def _sorted_columns(
    rows: np.ndarray, order: np.ndarray, user_starts: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the columns of rows[order], sorted by (user, ts, frame).

    The rows of `order` are grouped by user: user k has those from user_starts[k] on. The column
    `user` is k.
    """
    columns = _read_columns(rows, order)
    user = np.repeat(np.arange(len(user_starts) - 1, dtype=np.int32), np.diff(user_starts))
    if not sorted_within_groups(user_starts, columns["ts"]):
        order = order[np.lexsort((columns["frame"], columns["ts"], user))]
        columns = _read_columns(rows, order)
    return columns | {"user": user, "address_number": rows["user"][order]}


def _user_codes(
    batch: PacketBatch, partitions: int, names: AddressNames
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the batch's users, sorted by (user partition, name), and each packet's index in them.

    The users are given by the numbers of one address of each, int64[U], and their user partitions,
    int32[U].
    """
    numbers = np.ascontiguousarray(batch.rows["user"])
    user_numbers = names.user_numbers()
    if user_numbers is not None:
        numbers = user_numbers[numbers]
    users = np.flatnonzero(np.bincount(numbers))
    partition = names.user_partitions(users.tolist(), partitions)
    order = np.lexsort((np.array([names.names[k] for k in users.tolist()], "S"), partition))
    users, partition = users[order], partition[order]
    codes = np.full(len(names.names), -1, np.int32)
    codes[users] = np.arange(len(users))
    return users, partition, gather(codes, numbers)


def _split_by_day(rows: np.ndarray, order: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each day, as days since 1970, and the part of `order` that is of that day."""
    days = _days(rows)
    if len(days) == 1:
        yield days[0], order
        return
    codes = np.searchsorted(days, rows["ts"][order] // DAY_US)
    offsets = group_offsets(codes, len(days))
    by_day = order[group_order(codes, offsets)]
    for k, day in enumerate(days):
        yield day, by_day[offsets[k] : offsets[k + 1]]


def _read_columns(rows: np.ndarray, order: np.ndarray) -> dict[str, np.ndarray]:
    """Return the columns of rows[order] with the numeric types of the table."""
    columns = {
        name: np.empty(len(order), _STORED_TYPES.get(name, rows.dtype[name])) for name in COLUMNS
    }
    _fill_columns(rows, order, tuple(columns.values()))
    return columns


def _row_copier(names: tuple[str, ...]) -> Callable[..., None]:
    """Return a function that copies these fields of rows[order] into arrays, one for each.

    One pass reads each row once; one pass for each field would read the rows as often as there are
    fields. The function is written here, because Numba has no loop over the fields of a record.
    """
    lines = [f"    {', '.join(names)} = columns"]
    lines += ["    for i in range(len(order)):", "        row = rows[order[i]]"]
    lines += [f"        {name}[i] = row.{name}" for name in names]
    text = "\n".join(["def _fill_columns(rows, order, columns):", *lines])
    scope: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, __file__, "exec"), scope)
    return compiled(scope["_fill_columns"])


_fill_columns = _row_copier(COLUMNS)


def _table(
    columns: dict[str, np.ndarray],
    batch: PacketBatch,
    capture: str,
    partition: np.ndarray,
    users: np.ndarray,
    names: AddressNames,
) -> pa.Table:
    """Return sorted packets as rows of schemas.PACKETS.

    The column `user` holds indices into `users`, which are address numbers. The dictionaries hold
    only values that occur.
    """
    texts = pa.array(names.names)
    has, n = columns["has"], len(partition)
    validity = {0: None} | {flag: _validity(has, flag) for flag in _FLAGS}
    server_codes, servers = _renumber(columns["server"], len(batch.addresses) + 1)
    arrays = {
        "capture": pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), [capture]),
        "user_partition": pa.array(partition),
        "user": pa.DictionaryArray.from_arrays(columns["user"], texts.take(pa.array(users))),
        "server": pa.DictionaryArray.from_arrays(server_codes, texts.take(pa.array(servers))),
        "downlink": pa.array(columns["downlink"]),
        "sack": _sack(columns, batch.edges, validity[record.HAS_SACK]),
    }
    for name, flag in record.BOOLEAN_COLUMNS.items():
        arrays[name] = pa.Array.from_buffers(pa.bool_(), n, [validity[flag]] * 2)
    schema = PACKETS.arrow_dictionary
    if (has & record.HAS_QUIC).any():
        arrays |= _quic(columns, schema)
    if names.addresses is not None:
        own_names = pa.array(names.addresses, pa.string())
        arrays["address"] = own_names.take(columns["address_number"]).dictionary_encode()
    if names.vlans is not None:
        vlan = names.vlans[columns["address_number"]]
        arrays["vlan"] = pa.array(vlan, schema.field("vlan").type, mask=vlan == 0)
    for field in schema:
        if field.name in arrays:
            continue
        if field.name not in columns:
            arrays[field.name] = pa.nulls(n, field.type)
        else:
            values = pa.py_buffer(columns[field.name])
            buffers = [validity[_FLAG_OF_COLUMN.get(field.name, 0)], values]
            arrays[field.name] = pa.Array.from_buffers(field.type, n, buffers)
    return pa.Table.from_arrays([arrays[name] for name in schema.names], schema=schema)


def _quic(columns: dict[str, np.ndarray], schema: pa.Schema) -> dict[str, pa.Array]:
    """Return QUIC's columns; their values are in the places of TCP's."""
    has, n = columns["has"], len(columns["has"])
    arrays = {}
    for name, flag in record.QUIC_COLUMNS.items():
        type_ = schema.field(name).type
        codes = type_.index_type if pa.types.is_dictionary(type_) else type_
        buffers = [_validity(has, flag), pa.py_buffer(columns[record.OF_UDP[name]])]
        arrays[name] = pa.Array.from_buffers(codes, n, buffers)
    arrays["quic_form"] = _compact(arrays["quic_form"])
    spin = [_validity(has, record.HAS_QUIC_SPIN), _validity(has, record.QUIC_SPIN_SET)]
    return arrays | {"quic_spin": pa.Array.from_buffers(pa.bool_(), n, spin)}


def _compact(forms: pa.Array) -> pa.DictionaryArray:
    """Return the names of forms, with a dictionary of those that occur."""
    return pa.array(list(QUIC_FORMS)).take(forms).dictionary_encode()


def _validity(has: np.ndarray, flag: int) -> pa.Buffer:
    """Return the bitmap of the rows whose column `has` has a flag."""
    return pa.py_buffer(_flag_bits(has, np.uint32(flag)))


@compiled
def _flag_bits(values, flag):
    """Return which values have a flag, one bit each, the lowest bit of a byte first: uint8[..]."""
    bits = np.zeros((len(values) + 7) // 8, np.uint8)
    for i in range(len(values)):
        if values[i] & flag:
            bits[i >> 3] |= np.uint8(1 << (i & 7))
    return bits


def _sack(columns: dict[str, np.ndarray], edges: np.ndarray, validity: pa.Buffer) -> pa.Array:
    has_sack = columns["has"] & record.HAS_SACK != 0
    offsets = np.zeros(len(has_sack) + 1, np.int32)
    np.cumsum(np.where(has_sack, columns["sack_edges"], 0), out=offsets[1:])
    values = pa.array(_gather_edges(columns["sack_offset"], offsets, edges))
    return pa.Array.from_buffers(
        PACKETS.arrow.field("sack").type,
        len(has_sack),
        [validity, pa.py_buffer(offsets)],
        children=[values],
    )


@compiled
def _gather_edges(starts, offsets, edges):
    """Return the SACK edges of all rows, one row after the other: int64[offsets[-1]].

    starts: index in `edges` of each row's first edge; offsets: of each row's edges in the result.
    """
    out = np.empty(offsets[-1], np.int64)
    for i in range(len(starts)):
        for j in range(offsets[i + 1] - offsets[i]):
            out[offsets[i] + j] = edges[starts[i] + j]
    return out


@compiled
def _renumber(codes, code_count):
    """Return the codes renumbered in order of first appearance.

    The result is int32[n], the new codes, and the old codes in the order of the new ones.
    """
    new_codes = np.full(code_count, -1, np.int32)
    renumbered = np.empty(len(codes), np.int32)
    old_codes = np.empty(min(code_count, len(codes)), np.int32)
    n = 0
    for i, code in enumerate(codes):
        if new_codes[code] < 0:
            new_codes[code] = n
            old_codes[n] = code
            n += 1
        renumbered[i] = new_codes[code]
    return renumbered, old_codes[:n]
