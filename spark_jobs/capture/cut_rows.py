"""Cutting of a file's rows by day and user partition: each piece becomes a row group."""

from collections.abc import Iterator
from datetime import date, timedelta

import numpy as np
import pyarrow as pa

from spark_jobs.capture.columns import (
    DAY_US,
    EPOCH,
    limit_dates,
    packet_tables,
    split_by_period,
)
from spark_jobs.capture.reader import BATCH_PACKETS, PacketBatch, ReadStats
from spark_jobs.capture.users import UserKeys

MAX_DATES = 400
"""Maximum number of days that one file may have; packets of further days are left out."""


def cut_packets(
    runs: Iterator[PacketBatch], capture: str, partitions: int, keys: UserKeys, stats: ReadStats
) -> Iterator[tuple[date, pa.Table]]:
    """Yield pieces of packets, each with its day."""
    days: set[int] = set()
    for run in runs:
        plausible, implausible = limit_dates(run, days, MAX_DATES)
        if implausible:
            stats.skipped["implausible_time"] += implausible
        if len(plausible.rows):
            for period_run, keys_of_period in split_by_period(plausible, keys):
                names = keys_of_period.names_of_all(period_run.addresses)
                yield from packet_tables(period_run, capture, partitions, names)


def cut_log_rows(tables: Iterator[pa.Table], stats: ReadStats) -> Iterator[tuple[date, pa.Table]]:
    """Yield pieces of a log's rows, each with its day, sorted by time."""
    days: set[int] = set()
    for rows in map(_sorted, _batches(tables)):
        day = rows["ts"].cast(pa.int64()).to_numpy() // DAY_US
        partition = rows["user_partition"].fill_null(-1).to_numpy()
        new = np.setdiff1d(day, list(days))
        days.update(new[: MAX_DATES - len(days)].tolist())
        starts = np.flatnonzero(
            (np.diff(day, prepend=-1) != 0) | (np.diff(partition, prepend=-2) != 0)
        )
        for low, high in zip(starts, [*starts[1:], len(rows)], strict=True):
            if int(day[low]) in days:
                piece = rows.slice(low, high - low)
                # Otherwise its dictionaries would have the users of other days and partitions, too.
                yield EPOCH + timedelta(days=int(day[low])), _with_compact_dictionaries(piece)
            else:
                stats.skipped["implausible_time"] += int(high - low)


def _batches(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of tables in batches of about a million."""
    pending: list[pa.Table] = []
    for table in filter(len, tables):
        pending.append(table)
        if sum(map(len, pending)) >= BATCH_PACKETS:
            yield pa.concat_tables(pending)
            pending = []
    if pending:
        yield pa.concat_tables(pending)


def _sorted(rows: pa.Table) -> pa.Table:
    return rows.unify_dictionaries().sort_by([("user_partition", "ascending"), ("ts", "ascending")])


def _with_compact_dictionaries(rows: pa.Table) -> pa.Table:
    """Return the rows with dictionaries that have only the values in these rows."""
    for index, column in enumerate(rows.schema):
        if pa.types.is_dictionary(column.type):
            plain = rows.column(index).cast(column.type.value_type)
            rows = rows.set_column(index, column, plain.cast(column.type))
    return rows
