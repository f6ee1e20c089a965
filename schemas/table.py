"""What a table is: its columns, each written once, and what derives from them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zlib import crc32

import pyarrow as pa

DICTIONARY, PLAIN = "RLE_DICTIONARY", "PLAIN"
DELTA = "DELTA_BINARY_PACKED"
"""Encodings of Parquet. Not BYTE_STREAM_SPLIT: Spark 4.1 reads no integers so."""
ZSTD, UNCOMPRESSED = "zstd", "none"
"""How Parquet compresses what is encoded. Not by LZ4: Spark fails on some of its pages."""

WRITE_BATCH_SIZE = 1 << 14
"""Values that Parquet's writer takes at a time: by 1,024, as it does otherwise, takes 1.05
times as long."""

TIMESTAMP = pa.timestamp("us", tz="UTC")
CATALOG_NAME = "giscope"
"""Of the tables, to engines that have several catalogs."""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    meaning: what the value is; unit: how it is counted; source: the paper's section or the RFC
    that defines it. A value that could not be measured is null, so every column may be null
    unless `required`. type: what values there are, as in the logs that they are parsed from.
    encoding: how Parquet stores it, where that was measured to matter; if not, measured numbers,
    which seldom come again, as they are, and the rest by dictionary.
    """

    name: str
    type: pa.DataType
    meaning: str
    unit: str = ""
    source: str = ""
    required: bool = False
    encoding: str = ""
    compression: str = ZSTD
    fits_int32: bool = False
    """Its values are below 2^31, whatever the type."""

    @property
    def stored_type(self) -> pa.DataType:
        """The type that files and readers have: signed, for Iceberg, Spark and Java know no other
        integers. Spark's Iceberg reader finds no row for a condition on unsigned ones, and does not
        say so."""
        return pa.int32() if self.fits_int32 else _signed(self.type)

    @property
    def parquet_encoding(self) -> str:
        """How Parquet stores it."""
        return self.encoding or (PLAIN if pa.types.is_floating(self.type) else DICTIONARY)

    @property
    def comment(self) -> str:
        """Meaning, unit and source in one line."""
        unit = f" [{self.unit}]" if self.unit else ""
        return f"{self.meaning}{unit}" + (f" ({self.source})" if self.source else "")


PARTITION_COLUMNS = (
    Column("network", pa.string(), "the network's name in the networks file", required=True),
    Column("date", pa.date32(), "UTC day", required=True),
)


@dataclass(frozen=True)
class Table:
    """One table: `row` says what one row is.

    The partition columns (`network` and `date`) are the folders that the files lie in; they are
    columns for every reader, but are not stored in the files.
    """

    name: str
    row: str
    columns: tuple[Column, ...]
    partitions: tuple[Column, ...] = PARTITION_COLUMNS
    sorted_by: tuple[str, ...] = ()
    """In each file, where that is promised."""
    statistics_columns: tuple[str, ...] = ()
    """Columns of which each row group has the least and the greatest value, where not all have:
    readers leave out row groups by these."""
    group_columns: tuple[str, ...] = ()
    """Of a mart: columns that tell apart, beside network and date, its cells, any of which may be
    of one user and so single out a person; others are values of a cell, bins of histograms among
    them. See spark_jobs/marts/suppressed_groups.py."""

    @cached_property
    def arrow(self) -> pa.Schema:
        """The columns stored in each file."""
        return _arrow(self.columns)

    @cached_property
    def layout(self) -> str:
        """Tells the columns stored in each file from those of another version, by their names and
        types."""
        columns = ",".join(f"{field.name} {field.type}" for field in self.arrow)
        return f"{crc32(columns.encode()):08x}"

    @cached_property
    def arrow_dictionary(self) -> pa.Schema:
        """The columns stored in each file, as a writer of many rows holds them: strings as
        dictionaries."""
        return pa.schema(
            [
                field.with_type(pa.dictionary(pa.int32(), pa.string()))
                if field.type == pa.string()
                else field
                for field in self.arrow
            ]
        )

    @cached_property
    def parquet_options(self) -> dict[str, Any]:
        """How a ParquetWriter stores the columns."""
        stored = {path: column for column in self.columns for path in _parquet_paths(column)}
        codecs = {path: column.compression for path, column in stored.items()}
        return {
            "compression": codecs,
            "compression_level": {path: 1 for path, codec in codecs.items() if codec == ZSTD},
            "use_dictionary": [p for p, c in stored.items() if c.parquet_encoding == DICTIONARY],
            "column_encoding": {
                p: c.parquet_encoding for p, c in stored.items() if c.parquet_encoding != DICTIONARY
            },
            "write_statistics": list(self.statistics_columns) or True,
            "write_batch_size": WRITE_BATCH_SIZE,
        }

    @cached_property
    def arrow_with_partitions(self) -> pa.Schema:
        """The columns a reader sees."""
        return _arrow(self.partitions + self.columns)


def _parquet_paths(column: Column) -> list[str]:
    """A column's names in Parquet, which has lists' elements, and maps' keys and values, as columns
    of their own."""
    if pa.types.is_list(column.type):
        return [f"{column.name}.list.element"]
    if pa.types.is_map(column.type):
        return [f"{column.name}.key_value.{part}" for part in ("key", "value")]
    return [column.name]


def _arrow(columns: tuple[Column, ...]) -> pa.Schema:
    return pa.schema([pa.field(c.name, c.stored_type, nullable=not c.required) for c in columns])


def _signed(type_: pa.DataType) -> pa.DataType:
    """A signed type for an unsigned one; another type as it is."""
    if pa.types.is_list(type_):
        return pa.list_(_signed(type_.value_type))
    wider = {pa.uint8(): pa.int32(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
    return wider.get(type_, type_)
