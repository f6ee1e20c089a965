"""A table's Parquet files, written and read as its schema says."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from schemas import Table

LARGEST_ROW_GROUP = 1 << 24
LOCAL = LocalFileSystem()


def table_writer(table: Table, path: Path) -> pq.ParquetWriter:
    """A writer of a table's Parquet file, with the schema `table.arrow_dictionary`."""
    return pq.ParquetWriter(
        path,
        table.arrow_dictionary,
        filesystem=LOCAL,
        store_schema=False,
        **table.parquet_options,
    )


def read_rows(table: Table, paths: Iterable[Path], filters: list[Any] | None = None) -> pa.Table:
    """The rows of some of a table's files; filters: as of pq.read_table."""
    rows = [pq.read_table(path, filters=filters, partitioning=None) for path in paths]
    return pa.concat_tables([table.arrow.empty_table(), *(r.cast(table.arrow) for r in rows)])


def count_rows(path: Path) -> int:
    """How many rows a file has."""
    return pq.read_metadata(path).num_rows


def metadata_of(path: Path) -> dict[str, str]:
    """What a file's writer added to its metadata."""
    found = pq.read_metadata(path).metadata or {}
    return {name.decode(): text.decode() for name, text in found.items()}


def microseconds(time: datetime) -> int:
    """A time as the tables have it, µs since 1970."""
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def moment(us: int | None) -> datetime | None:
    """A time of the tables, µs since 1970, as Python's; None stays None."""
    return pa.scalar(us, pa.timestamp("us", "UTC")).as_py()


def read_between(
    paths: Iterable[Path], columns: list[str], first_us: int, last_us: int
) -> Iterator[pa.Table]:
    """Some columns of the rows of some files that are stamped (ts) from first_us to last_us, since
    1970, a row group at a time."""
    import pyarrow.compute as pc

    first, last = moment(first_us), moment(last_us)
    for path in paths:
        with pq.ParquetFile(path) as file:
            ts = file.schema_arrow.get_field_index("ts")
            for number in range(file.num_row_groups):
                times = file.metadata.row_group(number).column(ts).statistics
                if times.min <= last and first <= times.max:
                    rows = file.read_row_group(number, columns=[*columns])
                    yield rows.filter((pc.field("ts") >= first) & (pc.field("ts") <= last))
