"""Tables' Parquet files, written and read by the table's schema."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from schemas import Table
from schemas.arrow_types import ARROW_TYPES
from spark_jobs.base.places import in_object_store
from spark_jobs.warehouse.targets import has_columns_of
from spark_jobs.warehouse.units import Content, content_of

MAX_ROW_GROUP_ROWS = 1 << 24
REMEDY = "remove it, and the next run makes it again"
"""The advice in the message about a damaged file."""
WRITE_BUFFER_BYTES = 1 << 18
"""Bytes that are written at once: Parquet's pages are small, and each write is a system call."""


class Staged(NamedTuple):
    """A staged file: its path below the root once it is published, and its path until then."""

    target: str
    path: Path


class Written(NamedTuple):
    """A staged file that is complete, with its content and number of rows."""

    staged: Staged
    content: Content
    rows: int

    def belongs_to(self, table: Table) -> bool:
        """Return whether the file is of a table."""
        return self.staged.target.startswith(f"{table.name}/")


class TableWriter:
    """A writer of a table's Parquet file, to be used in a with statement.

    dictionaries: whether the rows have dictionary-encoded strings (see Table.arrow_dictionary).
    """

    def __init__(self, table: Table, staged: Staged, dictionaries: bool = True):
        self._staged, self._rows = staged, 0
        self._sink = _Hashed(staged.path)
        schema = table.arrow_dictionary if dictionaries else table.arrow
        self._writer = pq.ParquetWriter(
            self._sink, schema, store_schema=False, **table.parquet_options
        )

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._writer.close()
        finally:
            self._sink.close()

    def write_table(self, rows: pa.Table, row_group_size: int = MAX_ROW_GROUP_ROWS) -> None:
        """Write rows, in row groups of a maximum size."""
        self._writer.write_table(rows, row_group_size=row_group_size)
        self._rows += len(rows)

    @property
    def written(self) -> Written:
        """The complete file; valid after the with statement."""
        return Written(self._staged, self._sink.content, self._rows)


def sort_rows(table: Table, rows: pa.Table) -> pa.Table:
    """Return rows in the table's order.

    Nearly all rows differ in the first column. Only the others are compared by all columns, for
    Arrow's sort by several columns takes three times as long.
    """
    import numpy as np
    import pyarrow.compute as pc

    if not table.sorted_by:
        return rows
    values = rows[table.sorted_by[0]].combine_chunks().view(pa.int64()).to_numpy()
    order = np.argsort(values, kind="stable")
    ties = np.flatnonzero(np.diff(values[order]) == 0)
    ties = np.union1d(ties, ties + 1)
    if len(ties):
        tied_rows = rows.select(table.sorted_by).take(pa.array(order[ties]))
        sort_keys = [(name, "ascending") for name in table.sorted_by]
        order[ties] = order[ties][pc.sort_indices(tied_rows, sort_keys=sort_keys)]
    return rows if (np.diff(order) == 1).all() else rows.take(pa.array(order))


class _Hashed(io.RawIOBase):
    """A new file that hashes what is written to it."""

    def __init__(self, path: Path):
        self._file = path.open("wb", buffering=WRITE_BUFFER_BYTES)
        self._digest, self._size = xxhash.xxh3_64(), 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._digest.update(data)
        self._size += len(data)
        self._file.write(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()

    @property
    def content(self) -> Content:
        return Content(self._size, self._digest.hexdigest())


def read_rows(
    table: Table,
    paths: Iterable[Path],
    filters: list[Any] | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Return the rows of some of a table's files.

    filters, columns: as in pq.read_table.
    """
    names = table.arrow.names if columns is None else columns
    schema = pa.schema([table.arrow.field(name) for name in names])
    rows = []
    for path in paths:
        with _damage_named(path):
            rows.append(_read_file(table, path, filters, names))
    return pa.concat_tables([schema.empty_table(), *(r.cast(schema) for r in rows)])


def _read_file(
    table: Table, path: Path, filters: list[Any] | None, names: Sequence[str]
) -> pa.Table:
    if has_columns_of(table, path):
        columns = None if len(names) == len(table.columns) else list(names)
        rows = pq.read_table(_source(path), columns=columns, filters=filters, partitioning=None)
        return rows.select(names)
    rows = pq.read_table(_source(path), partitioning=None)
    rows = with_columns(rows, table, table.arrow.names)
    return (rows.filter(pq.filters_to_expression(filters)) if filters else rows).select(names)


def with_columns(rows: pa.Table, table: Table, names: Sequence[str]) -> pa.Table:
    """Return some columns of a file's rows.

    A column that a file of another format lacks is null, or 0 if the column may not be null.
    """
    for column in table.columns:
        if column.name in names and column.name not in rows.column_names:
            filler = pa.scalar(0 if column.required else None).cast(ARROW_TYPES[column.type])
            rows = rows.append_column(column.name, pa.repeat(filler, len(rows)))
    return rows.select(names)


def open_parquet(path: Path, **options: Any) -> pq.ParquetFile:
    """Open a Parquet file; options: as in pq.ParquetFile. Raises OSError, also if it is damaged."""
    with _damage_named(path):
        return pq.ParquetFile(_source(path), **options)


def read_metadata(path: Path) -> pq.FileMetaData:
    """Return a Parquet file's metadata. Raises OSError, also if the file is damaged."""
    with _damage_named(path):
        return pq.read_metadata(_source(path))


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """Turn an error of PyArrow about a damaged file into an OSError that names the file."""
    try:
        yield
    except pa.ArrowInvalid as error:
        raise OSError(errno.EIO, f"is damaged; {REMEDY}", str(path)) from error


def _source(path: Path) -> Any:
    """Return what pyarrow reads a file from; it would take a relative path `x:/y` for a URL."""
    return path.open("rb", buffering=0) if in_object_store(path) else path.absolute()


def content_and_rows(path: Path) -> tuple[Content, int]:
    """Return a file's content and its number of rows, both read from the file."""
    return content_of(path), read_metadata(path).num_rows


def microseconds(time: datetime) -> int:
    """Return a time in the tables' unit, µs since 1970."""
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def to_datetime(us: int | None) -> datetime | None:
    """Return a time of the tables (µs since 1970) as a datetime; None for None."""
    return pa.scalar(us, pa.timestamp("us", "UTC")).as_py()
