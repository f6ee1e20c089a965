"""Runs of packet rows to sorted Arrow tables: one table a bucket and date, by (user, ts); where a
date has few packets one for all of its buckets."""

from collections.abc import Iterator
from datetime import date, timedelta
from itertools import groupby

import numpy as np
import pyarrow as pa

from schemas import PACKETS, TIMESTAMP
from spark_jobs.capture import decode
from spark_jobs.capture.reader import PacketBatch
from spark_jobs.capture.users import UserKeys
from spark_jobs.compiled import compiled
from spark_jobs.compiled.arrays import gather, group_offsets, group_order, sorted_within_groups

DAY_US = 86_400_000_000
EPOCH = date(1970, 1, 1)
MIN_PACKETS_TO_SPLIT = 2048
"""A row group costs more than so many packets, to write, to keep and to read."""

COLUMNS = tuple(
    name for name in decode.ROW.names or () if name not in ("user", *decode.FRAGMENT_COLUMNS)
)
"""What is taken from rows as it is."""
_STORED_TYPES = {
    c.name: c.read_as.to_pandas_dtype() for c in PACKETS.columns if c.type != c.read_as
}
_FLAG_OF_COLUMN = {name: flag for flag, names in decode.NUMERIC_COLUMNS.items() for name in names}


def limit_dates(batch: PacketBatch, days: set[int], max_dates: int) -> tuple[PacketBatch, int]:
    """The run without the packets of further dates once there are `most`, and how many those are.

    days: the dates so far, as days since 1970; the run's are added.
    """
    low, high = (int(ts // DAY_US) for ts in _time_range(batch.rows))
    if low == high and low in days:
        return batch, 0
    row_days = batch.rows["ts"] // DAY_US
    new_days = [day for day in np.unique(row_days).tolist() if day not in days]
    days.update(new_days[: max(0, max_dates - len(days))])
    keep = np.isin(row_days, list(days))
    if keep.all():
        return batch, 0
    return batch.select(keep), int(len(keep) - keep.sum())


@compiled
def _time_range(rows):
    """The first and the last time of rows, ROW[n] (µs)."""
    first = last = rows[0].ts
    for i in range(len(rows)):
        first, last = min(first, rows[i].ts), max(last, rows[i].ts)
    return first, last


def split_by_period(batch: PacketBatch, keys: UserKeys) -> Iterator[tuple[PacketBatch, UserKeys]]:
    """The run's packets of each period of the pseudonyms, and how users are called in it."""
    first, last = (EPOCH + timedelta(days=int(ts // DAY_US)) for ts in _time_range(batch.rows))
    if keys.for_day(first) == keys.for_day(last):
        yield batch, keys.for_day(first)
        return
    row_days = batch.rows["ts"] // DAY_US
    for period_keys, days in groupby(
        np.unique(row_days).tolist(), lambda number: keys.for_day(EPOCH + timedelta(days=number))
    ):
        yield batch.select(np.isin(row_days, list(days))), period_keys


def packet_tables(
    batch: PacketBatch, capture: str, partitions: int, keys: UserKeys
) -> Iterator[tuple[date, pa.Table]]:
    """The run's packets, of one period of the pseudonyms, as tables of schemas.PACKETS, one a
    (bucket, date), each sorted by (user, ts, frame); a date with few packets has one table, sorted
    by bucket first."""
    users, codes = _user_codes(batch, partitions, keys)
    order = group_order(codes, group_offsets(codes, len(users)))
    partition_of_user = np.array([partition_of_user for partition_of_user, _ in users], np.int32)
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
                    [users[code][1] for code in user_codes.tolist()],
                    keys,
                ),
            )


def _sorted_columns(
    rows: np.ndarray, order: np.ndarray, user_starts: np.ndarray
) -> dict[str, np.ndarray]:
    """The columns of rows[places], which are grouped by user, from of_user[k] on: by (user, ts,
    frame), `user` counting."""
    columns = _read_columns(rows, order)
    columns["user"] = np.repeat(
        np.arange(len(user_starts) - 1, dtype=np.int32), np.diff(user_starts)
    )
    if not sorted_within_groups(user_starts, columns["ts"]):
        by_time = np.lexsort((columns["frame"], columns["ts"], columns["user"]))
        columns = {name: values[by_time] for name, values in columns.items()}
    return columns


def _user_codes(
    batch: PacketBatch, partitions: int, keys: UserKeys
) -> tuple[list[tuple[int, str]], np.ndarray]:
    """The run's users as (bucket, key), sorted, and each packet's place among them."""
    numbers = np.ascontiguousarray(batch.rows["user"])
    present = np.flatnonzero(np.bincount(numbers))
    names = keys.names(batch.addresses, present)
    users = sorted((keys.partition(key, partitions), key) for key in names)
    code_of_name = {key: i for i, (_, key) in enumerate(users)}
    codes = np.full(len(batch.addresses) + 1, -1, np.int32)
    codes[present] = [code_of_name[key] for key in names]
    return users, gather(codes, numbers)


def _split_by_day(rows: np.ndarray, order: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Each day, since 1970, and its places in the order."""
    low, high = (int(ts // DAY_US) for ts in _time_range(rows))
    if low == high:
        yield low, order
        return
    days, codes = np.unique(rows["ts"] // DAY_US, return_inverse=True)
    offsets = group_offsets(gather(codes, order), len(days))
    by_day = order[group_order(gather(codes, order), offsets)]
    for k, day in enumerate(days.tolist()):
        yield day, by_day[offsets[k] : offsets[k + 1]]


def _read_columns(rows: np.ndarray, order: np.ndarray) -> dict[str, np.ndarray]:
    """The columns of rows[order], numbers as the table has them."""
    columns = {
        name: np.empty(len(order), _STORED_TYPES.get(name, rows.dtype[name])) for name in COLUMNS
    }
    _fill_columns(rows, order, tuple(columns.values()))
    return columns


@compiled
def _fill_columns(rows, order, columns):
    """rows[order] into COLUMNS: one pass over the rows, where a pass for each column would read
    them as often."""
    (
        frame,
        ts,
        server,
        ip_len,
        seq,
        ack,
        payload_len,
        ts_val,
        ts_ecr,
        sack_offset,
        user_port,
        server_port,
        ip_id,
        tcp_flags,
        window,
        mss,
        has,
        ip_proto,
        ttl,
        window_scale,
        sack_edges,
        clock_steps,
        downlink,
    ) = columns
    for i in range(len(order)):
        row = rows[order[i]]
        frame[i], ts[i], server[i], ip_len[i] = row.frame, row.ts, row.server, row.ip_len
        seq[i], ack[i], payload_len[i] = row.seq, row.ack, row.payload_len
        ts_val[i], ts_ecr[i], sack_offset[i] = row.ts_val, row.ts_ecr, row.sack_offset
        user_port[i], server_port[i], ip_id[i] = row.user_port, row.server_port, row.ip_id
        tcp_flags[i], window[i], mss[i], has[i] = row.tcp_flags, row.window, row.mss, row.has
        ip_proto[i], ttl[i], window_scale[i] = row.ip_proto, row.ttl, row.window_scale
        sack_edges[i], clock_steps[i] = row.sack_edges, row.clock_steps
        downlink[i] = row.downlink


def _table(
    columns: dict[str, np.ndarray],
    batch: PacketBatch,
    capture: str,
    partition: np.ndarray,
    users: list[str],
    keys: UserKeys,
) -> pa.Table:
    """Sorted packets, of which `user` counts `users`. The dictionaries hold what occurs."""
    has = columns["has"]
    n, common_flags = len(has), int(np.bitwise_and.reduce(has))
    server_codes, servers = _renumber(columns["server"], len(batch.addresses) + 1)
    arrays = {
        "capture": pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), [capture]),
        "user_partition": pa.array(partition),
        "user": pa.DictionaryArray.from_arrays(columns["user"], users),
        "server": pa.DictionaryArray.from_arrays(
            server_codes, keys.names(batch.addresses, servers)
        ),
        "sack": _sack(columns, has & decode.HAS_SACK != 0, batch.edges),
    }
    for name, flag in decode.BOOLEAN_COLUMNS.items():
        is_set = has & flag != 0
        arrays[name] = pa.array(is_set, mask=~is_set)
    for name in PACKETS.arrow.names:
        if name not in arrays:
            arrays[name] = pa.array(columns[name], mask=_null_mask(name, has, common_flags))
    arrays["ts"] = arrays["ts"].cast(TIMESTAMP)
    schema = PACKETS.arrow_dictionary
    return pa.Table.from_arrays([arrays[name] for name in schema.names], schema=schema)


def _null_mask(name: str, has: np.ndarray, common_flags: int) -> np.ndarray | None:
    flag = _FLAG_OF_COLUMN.get(name, 0)
    return None if common_flags & flag == flag else has & flag == 0


def _sack(columns: dict[str, np.ndarray], has_sack: np.ndarray, edges: np.ndarray) -> pa.Array:
    counts = np.where(has_sack, columns["sack_edges"], 0)
    offsets = np.zeros(len(has_sack) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    values = _gather_edges(columns["sack_offset"], offsets, edges)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values), mask=pa.array(~has_sack))


@compiled
def _gather_edges(starts, offsets, edges):
    """int64[offsets[-1]]: edges[at[i]:] of each row, one row after the other."""
    out = np.empty(offsets[-1], np.int64)
    for i in range(len(starts)):
        for j in range(offsets[i + 1] - offsets[i]):
            out[offsets[i] + j] = edges[starts[i] + j]
    return out


@compiled
def _renumber(codes, code_count):
    """Codes in order of first appearance: (int32[n] new codes, the old ones in that order)."""
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
