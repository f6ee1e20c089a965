"""A table's Parquet files, written and read as its schema says."""

from collections.abc import Iterable
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
