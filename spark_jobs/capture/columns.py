"""Runs of packet rows to sorted Arrow tables: one table a bucket and date, by (user, ts)."""

from collections.abc import Callable, Iterator
from datetime import date, timedelta

import numpy as np
import pyarrow as pa

from schemas import PACKETS, TIMESTAMP
from spark_jobs.capture import decode
from spark_jobs.capture.reader import Run
from spark_jobs.capture.users import user_bucket
from spark_jobs.compiled import compiled
from spark_jobs.compiled.arrays import gather, group_offsets, group_order, sorted_within_groups

DAY_US = 86_400_000_000
EPOCH = date(1970, 1, 1)

_NULL_UNLESS = {name: flag for flag, names in decode.NUMBERS_OF.items() for name in names}


def within_dates(run: Run, days: set[int], most: int) -> tuple[Run, int]:
    """The run without the packets of further dates once there are `most`, and how many those are.

    days: the dates so far, as days since 1970; the run's are added.
    """
    found = run.rows["ts"] // DAY_US
    low, high = int(found.min()), int(found.max())
    if low == high and low in days:
        return run, 0
    new = [day for day in np.unique(found).tolist() if day not in days]
    days.update(new[: max(0, most - len(days))])
    keep = np.isin(found, list(days))
    return Run(run.rows[keep], run.edges, run.addresses), int(len(keep) - keep.sum())


def packet_tables(
    run: Run, capture: str, buckets: int, user_key: Callable[[str], str]
) -> Iterator[tuple[date, pa.Table]]:
    """The run's packets as tables of schemas.PACKETS, one a (bucket, date), each sorted by
    (user, ts, frame)."""
    users, codes = _users(run, buckets, user_key)
    first = group_offsets(codes, len(users))
    order = group_order(codes, first)
    bounds = [i for i, user in enumerate(users) if i == 0 or user[0] != users[i - 1][0]]
    for low, high in zip(bounds, [*bounds[1:], len(users)], strict=True):
        bucket, keys = users[low][0], [key for _, key in users[low:high]]
        rows = gather(run.rows, order[first[low] : first[high]])
        rows["user"] = np.repeat(np.arange(high - low), np.diff(first[low : high + 1]))
        if not sorted_within_groups(first[low : high + 1] - first[low], rows["ts"]):
            rows = rows[np.lexsort((rows["frame"], rows["ts"], rows["user"]))]
        days = rows["ts"] // DAY_US
        several = days.min() != days.max()
        for day in np.unique(days) if several else days[:1]:
            part = rows[days == day] if several else rows
            table = _table(part, run, capture, bucket, keys)
            yield EPOCH + timedelta(days=int(day)), table


def _users(
    run: Run, buckets: int, user_key: Callable[[str], str]
) -> tuple[list[tuple[int, str]], np.ndarray]:
    """The run's users as (bucket, key), sorted, and each packet's place among them."""
    seen = np.flatnonzero(np.bincount(run.rows["user"])).tolist()
    keys = [user_key(run.addresses.text(i)) for i in seen]
    users = sorted({(user_bucket(key, buckets), key) for key in keys})
    place = {key: i for i, (_, key) in enumerate(users)}
    rank = np.full(len(run.addresses) + 1, -1, np.int32)
    rank[seen] = [place[key] for key in keys]
    return users, rank[run.rows["user"]]


def _table(rows: np.ndarray, run: Run, capture: str, bucket: int, keys: list[str]) -> pa.Table:
    """Rows of one bucket, sorted, `user` counting `keys`. The dictionaries hold what occurs."""
    n = len(rows)
    has = np.ascontiguousarray(rows["has"])
    in_all = int(np.bitwise_and.reduce(has))
    server_codes, servers = _renumber(np.ascontiguousarray(rows["server"]), len(run.addresses) + 1)
    there = has & decode.HAS_SACK_PERMITTED != 0
    columns = {
        "capture": pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), [capture]),
        "bucket": pa.array(np.full(n, bucket, np.int32)),
        "user": pa.DictionaryArray.from_arrays(np.ascontiguousarray(rows["user"]), keys),
        "server": pa.DictionaryArray.from_arrays(
            server_codes, [run.addresses.text(i) for i in servers]
        ),
        "sack_permitted": pa.array(there, mask=~there),
        "sack": _sack(rows, has & decode.HAS_SACK != 0, run.edges),
    }
    for name in PACKETS.arrow.names:
        if name not in columns:
            values = np.ascontiguousarray(rows[name])
            columns[name] = pa.array(values, mask=_null_where(name, has, in_all))
    columns["ts"] = columns["ts"].cast(TIMESTAMP)
    schema = PACKETS.arrow_dictionary
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def _null_where(name: str, has: np.ndarray, in_all: int) -> np.ndarray | None:
    flag = _NULL_UNLESS.get(name, 0)
    return None if in_all & flag == flag else has & flag == 0


def _sack(rows: np.ndarray, there: np.ndarray, edges: np.ndarray) -> pa.Array:
    counts = np.where(there, rows["sack_edges"], 0)
    offsets = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    gathered = _gather(np.ascontiguousarray(rows["sack_at"]), offsets, edges)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(gathered), mask=pa.array(~there))


@compiled
def _gather(at, offsets, edges):
    """uint32[offsets[-1]]: edges[at[i]:] of each row, one row after the other."""
    out = np.empty(offsets[-1], np.uint32)
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
