"""Runs of packet rows to sorted Arrow tables: one table a bucket and date, by (user, ts); where a
date has few packets one for all of its buckets."""

from collections.abc import Iterator
from datetime import date, timedelta
from itertools import groupby

import numpy as np
import pyarrow as pa

from schemas import PACKETS, TIMESTAMP
from spark_jobs.capture import decode
from spark_jobs.capture.reader import Run
from spark_jobs.capture.users import UserKeys
from spark_jobs.compiled import compiled
from spark_jobs.compiled.arrays import gather, group_offsets, group_order, sorted_within_groups

DAY_US = 86_400_000_000
EPOCH = date(1970, 1, 1)
FEW_PACKETS = 2048
"""A row group costs more than so many packets, to write, to keep and to read."""

COLUMNS = tuple(
    name for name in decode.ROW.names or () if name not in ("user", *decode.OF_FRAGMENTS)
)
"""What is taken from rows as it is."""
_STORED = {
    c.name: c.stored_type.to_pandas_dtype() for c in PACKETS.columns if c.type != c.stored_type
}
_NULL_UNLESS = {name: flag for flag, names in decode.NUMBERS_OF.items() for name in names}


def within_dates(run: Run, days: set[int], most: int) -> tuple[Run, int]:
    """The run without the packets of further dates once there are `most`, and how many those are.

    days: the dates so far, as days since 1970; the run's are added.
    """
    low, high = (int(ts // DAY_US) for ts in _times(run.rows))
    if low == high and low in days:
        return run, 0
    found = run.rows["ts"] // DAY_US
    new = [day for day in np.unique(found).tolist() if day not in days]
    days.update(new[: max(0, most - len(days))])
    keep = np.isin(found, list(days))
    if keep.all():
        return run, 0
    return run.only(keep), int(len(keep) - keep.sum())


@compiled
def _times(rows):
    """The first and the last time of rows, ROW[n] (µs)."""
    first = last = rows[0].ts
    for i in range(len(rows)):
        first, last = min(first, rows[i].ts), max(last, rows[i].ts)
    return first, last


def by_period(run: Run, keys: UserKeys) -> Iterator[tuple[Run, UserKeys]]:
    """The run's packets of each period of the pseudonyms, and how users are called in it."""
    first, last = (EPOCH + timedelta(days=int(ts // DAY_US)) for ts in _times(run.rows))
    if keys.on(first) == keys.on(last):
        yield run, keys.on(first)
        return
    day = run.rows["ts"] // DAY_US
    for of_period, days in groupby(
        np.unique(day).tolist(), lambda number: keys.on(EPOCH + timedelta(days=number))
    ):
        yield run.only(np.isin(day, list(days))), of_period


def packet_tables(
    run: Run, capture: str, partitions: int, keys: UserKeys
) -> Iterator[tuple[date, pa.Table]]:
    """The run's packets, of one period of the pseudonyms, as tables of schemas.PACKETS, one a
    (bucket, date), each sorted by (user, ts, frame); a date with few packets has one table, sorted
    by bucket first."""
    users, codes = _users(run, partitions, keys)
    order = group_order(codes, group_offsets(codes, len(users)))
    partition = np.array([partition for partition, _ in users], np.int32)
    for day, places in _by_day(run.rows, order):
        user = gather(codes, places)
        firsts = np.flatnonzero(np.diff(user, prepend=-1))
        cuts = [0]
        if len(places) > FEW_PACKETS:
            cuts = firsts[np.flatnonzero(np.diff(partition[user[firsts]], prepend=-1))].tolist()
        for low, high in zip(cuts, [*cuts[1:], len(places)], strict=True):
            of_user = np.append(firsts[(firsts >= low) & (firsts < high)], high) - low
            mine = user[low + of_user[:-1]]
            yield (
                EPOCH + timedelta(days=day),
                _table(
                    _sorted_columns(run.rows, places[low:high], of_user),
                    run,
                    capture,
                    np.repeat(partition[mine], np.diff(of_user)),
                    [users[code][1] for code in mine.tolist()],
                    keys,
                ),
            )


def _sorted_columns(
    rows: np.ndarray, places: np.ndarray, of_user: np.ndarray
) -> dict[str, np.ndarray]:
    """The columns of rows[places], which are grouped by user, from of_user[k] on: by (user, ts,
    frame), `user` counting."""
    columns = _columns(rows, places)
    columns["user"] = np.repeat(np.arange(len(of_user) - 1, dtype=np.int32), np.diff(of_user))
    if not sorted_within_groups(of_user, columns["ts"]):
        in_time = np.lexsort((columns["frame"], columns["ts"], columns["user"]))
        columns = {name: values[in_time] for name, values in columns.items()}
    return columns


def _users(run: Run, partitions: int, keys: UserKeys) -> tuple[list[tuple[int, str]], np.ndarray]:
    """The run's users as (bucket, key), sorted, and each packet's place among them."""
    numbers = np.ascontiguousarray(run.rows["user"])
    seen = np.flatnonzero(np.bincount(numbers))
    found = keys.texts(run.addresses, seen)
    users = sorted((keys.partition(key, partitions), key) for key in found)
    place = {key: i for i, (_, key) in enumerate(users)}
    rank = np.full(len(run.addresses) + 1, -1, np.int32)
    rank[seen] = [place[key] for key in found]
    return users, gather(rank, numbers)


def _by_day(rows: np.ndarray, order: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Each day, since 1970, and its places in the order."""
    low, high = (int(ts // DAY_US) for ts in _times(rows))
    if low == high:
        yield low, order
        return
    days, codes = np.unique(rows["ts"] // DAY_US, return_inverse=True)
    first = group_offsets(gather(codes, order), len(days))
    by_day = order[group_order(gather(codes, order), first)]
    for k, day in enumerate(days.tolist()):
        yield day, by_day[first[k] : first[k + 1]]


def _columns(rows: np.ndarray, order: np.ndarray) -> dict[str, np.ndarray]:
    """The columns of rows[order], numbers as the table has them."""
    out = {name: np.empty(len(order), _STORED.get(name, rows.dtype[name])) for name in COLUMNS}
    _fill(rows, order, tuple(out.values()))
    return out


@compiled
def _fill(rows, order, columns):
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
        sack_at,
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
        ts_val[i], ts_ecr[i], sack_at[i] = row.ts_val, row.ts_ecr, row.sack_at
        user_port[i], server_port[i], ip_id[i] = row.user_port, row.server_port, row.ip_id
        tcp_flags[i], window[i], mss[i], has[i] = row.tcp_flags, row.window, row.mss, row.has
        ip_proto[i], ttl[i], window_scale[i] = row.ip_proto, row.ttl, row.window_scale
        sack_edges[i], clock_steps[i] = row.sack_edges, row.clock_steps
        downlink[i] = row.downlink


def _table(
    columns: dict[str, np.ndarray],
    run: Run,
    capture: str,
    partition: np.ndarray,
    users: list[str],
    keys: UserKeys,
) -> pa.Table:
    """Sorted packets, of which `user` counts `users`. The dictionaries hold what occurs."""
    has = columns["has"]
    n, in_all = len(has), int(np.bitwise_and.reduce(has))
    server_codes, servers = _renumber(columns["server"], len(run.addresses) + 1)
    arrays = {
        "capture": pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), [capture]),
        "user_partition": pa.array(partition),
        "user": pa.DictionaryArray.from_arrays(columns["user"], users),
        "server": pa.DictionaryArray.from_arrays(server_codes, keys.texts(run.addresses, servers)),
        "sack": _sack(columns, has & decode.HAS_SACK != 0, run.edges),
    }
    for name, flag in decode.TOLD.items():
        there = has & flag != 0
        arrays[name] = pa.array(there, mask=~there)
    for name in PACKETS.arrow.names:
        if name not in arrays:
            arrays[name] = pa.array(columns[name], mask=_null_where(name, has, in_all))
    arrays["ts"] = arrays["ts"].cast(TIMESTAMP)
    schema = PACKETS.arrow_dictionary
    return pa.Table.from_arrays([arrays[name] for name in schema.names], schema=schema)


def _null_where(name: str, has: np.ndarray, in_all: int) -> np.ndarray | None:
    flag = _NULL_UNLESS.get(name, 0)
    return None if in_all & flag == flag else has & flag == 0


def _sack(columns: dict[str, np.ndarray], there: np.ndarray, edges: np.ndarray) -> pa.Array:
    counts = np.where(there, columns["sack_edges"], 0)
    offsets = np.zeros(len(there) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    gathered = _gather(columns["sack_at"], offsets, edges)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(gathered), mask=pa.array(~there))


@compiled
def _gather(at, offsets, edges):
    """int64[offsets[-1]]: edges[at[i]:] of each row, one row after the other."""
    out = np.empty(offsets[-1], np.int64)
    for i in range(len(at)):
        for j in range(offsets[i + 1] - offsets[i]):
            out[offsets[i] + j] = edges[at[i] + j]
    return out


@compiled
def _renumber(codes, room):
    """Codes in order of first appearance: (int32[n] new codes, the old ones in that order)."""
    new = np.full(room, -1, np.int32)
    out = np.empty(len(codes), np.int32)
    old = np.empty(min(room, len(codes)), np.int32)
    n = 0
    for i, code in enumerate(codes):
        if new[code] < 0:
            new[code] = n
            old[n] = code
            n += 1
        out[i] = new[code]
    return out, old[:n]
