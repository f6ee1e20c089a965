"""Row groups of captures' tables: no other module writes or reads them.

Each row group of packets keeps this contract:

- It has packets of one capture.
- It has packets of one user partition. If the capture has few packets of the day, it has those of
  all user partitions.
- Its packets are sorted by user partition, user, time and frame.
- A capture's row groups are in the order in which the capture was read. So of a user's packets with
  equal times, the first captured comes first.
- Its statistics have the smallest and the largest capture, user partition and time. So readers
  choose row groups by a file's metadata.
- Its dictionaries have only texts that its rows have.

Files are merged and split, and users are removed, row group by row group: what is left of one is
one row group again. Those of the other tables of captures have rows of one capture, too, except
those of merged files of ingest_log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemas import PACKETS, Table
from spark_jobs.warehouse.files import (
    TableWriter,
    microseconds,
    open_parquet,
    read_metadata,
    with_columns,
)

MAX_CACHED_ROW_GROUPS = 6000
"""Maximum number of row groups whose metadata a process caches, some 20 kB each.

A day of 288 captures in 16 user partitions has about as many.
"""
_metadata_cache: dict[Path, pq.FileMetaData] = {}
_metadata_lock = Lock()


class RowGroup(NamedTuple):
    """A row group of packets, as its statistics describe it.

    - path, number: its file, and its number in the file
    - partitions: the range of its user partitions
    - rows: the number of its packets
    - first_us, last_us: the times of its first and last packet (µs since 1970)
    - wanted: the user partitions to read, if it also has others; else None
    """

    path: Path
    number: int
    capture: str
    partitions: range
    rows: int
    first_us: int
    last_us: int
    wanted: tuple[int, ...] | None = None

    def restricted_to(self, partitions: Collection[int]) -> RowGroup | None:
        """Return the row group with the user partitions to read; None if it has none of them."""
        wanted = tuple(partition for partition in self.partitions if partition in partitions)
        if len(wanted) == len(self.partitions):
            return self
        return self._replace(wanted=wanted) if wanted else None


def write_row_group(writer: TableWriter, rows: pa.Table) -> None:
    """Write rows as one row group; there must be some."""
    writer.write_table(rows, row_group_size=len(rows))


def row_groups(path: Path) -> list[RowGroup]:
    """Return the row groups of a file of packets, in the file's order.

    Raises FileNotFoundError.
    """
    metadata = read_metadata(path)
    names = [metadata.schema.column(n).name for n in range(metadata.num_columns)]
    columns = [names.index(name) for name in ("capture", "user_partition", "ts")]
    found = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        capture, partition, ts = (group.column(index).statistics for index in columns)
        found.append(
            RowGroup(
                path,
                number,
                capture.min,
                range(partition.min, partition.max + 1),
                group.num_rows,
                microseconds(ts.min),
                microseconds(ts.max),
            )
        )
    return found


def in_capture_order(groups: Iterable[RowGroup]) -> list[RowGroup]:
    """Return row groups, those of each file's captures in the order of their first packets.

    So of packets with equal times, the first captured comes first.
    """
    groups, starts = list(groups), dict[tuple[Path, str], int]()
    for group in groups:
        part = group.path, group.capture
        starts[part] = min(group.first_us, starts.get(part, group.first_us))
    return sorted(groups, key=lambda g: (starts[g.path, g.capture], g.capture, g.number))


def read_columns(groups: Iterable[RowGroup], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield some columns of each row group of packets, all rows of it."""
    for path, groups_of_file in groupby(groups, attrgetter("path")):
        with open_parquet(
            path, metadata=_metadata(path), read_dictionary=["user", "server"]
        ) as file:
            for group in groups_of_file:
                rows = file.read_row_group(group.number, columns=columns, use_threads=False)
                yield with_columns(rows, PACKETS, columns)


def _metadata(path: Path) -> pq.FileMetaData:
    """Return the metadata of a file of packets, which never changes.

    Each task reads a little of every file, so the metadata of the latest files are cached.
    """
    found = _metadata_cache.get(path) or read_metadata(path)
    with _metadata_lock:  # threads of `giscope serve` share the cache
        _metadata_cache.pop(path, None)
        _metadata_cache[path] = found
        while (
            len(_metadata_cache) > 1
            and sum(each.num_row_groups for each in _metadata_cache.values())
            > MAX_CACHED_ROW_GROUPS
        ):
            del _metadata_cache[next(iter(_metadata_cache))]
    return found


def stored_row_groups(
    path: Path,
    table: Table,
    columns: Sequence[str] | None = None,
    is_wanted: Callable[[pa.Table], bool] | None = None,
    decide_by: Sequence[str] = (),
) -> Iterator[pa.Table]:
    """Yield the row groups of a table's file as their writer had them, with the present columns.

    - columns: the columns to read; None: all
    - is_wanted: decides by the columns `decide_by` of a row group whether to read the others

    Columns that the table does not have are left out.
    """
    schema = table.arrow_dictionary
    present = {*read_metadata(path).schema.names}
    texts = [f.name for f in schema if pa.types.is_dictionary(f.type) and f.name in present]
    with open_parquet(path, read_dictionary=texts) as file:

        def read(number: int, columns: Sequence[str]) -> pa.Table:
            names = [name for name in columns if name in schema.names]
            rows = file.read_row_group(number, columns=names, use_threads=False)
            return with_columns(rows, table, names).cast(pa.schema(map(schema.field, names)))

        for number in range(file.num_row_groups):
            if is_wanted is None or is_wanted(read(number, decide_by)):
                yield read(number, schema.names if columns is None else columns)


def rows_by_capture(path: Path, table: Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield (capture, rows) for each row group of a table's file, and for each capture in it."""
    for rows in stored_row_groups(path, table):
        captures = rows["capture"].unique().to_pylist()
        if len(captures) == 1:
            yield captures[0], rows
            continue
        # Decoded first, or each capture's rows would have all captures' dictionaries.
        decoded = rows.cast(table.arrow)
        for capture in captures:
            own = decoded.filter(pc.field("capture") == capture)
            yield capture, own.cast(table.arrow_dictionary)
