"""The definition of a table by its columns, and the schemas that derive from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from zlib import crc32

if TYPE_CHECKING:
    import pyarrow as pa

DICTIONARY, PLAIN = "RLE_DICTIONARY", "PLAIN"
DELTA = "DELTA_BINARY_PACKED"
"""Encodings of Parquet. Not BYTE_STREAM_SPLIT: Spark 4.1 cannot read integers in it."""
ZSTD, UNCOMPRESSED = "zstd", "none"
"""Compressions of Parquet. Not LZ4: Spark fails on some of its pages."""

WRITE_BATCH_SIZE = 1 << 14
"""Values that Parquet's writer takes at a time: its default of 1,024 takes 1.05 times as long."""

TIMESTAMP = "timestamp[us, tz=UTC]"
"""Name of the type of times."""
SIGNED = {
    "uint8": "int32",
    "uint16": "int32",
    "uint32": "int64",
    "list<item: uint32>": "list<item: int64>",
}
"""The signed type that holds the values of an unsigned type, by the names of both."""

CATALOG_NAME = "giscope"
"""Name of the tables' catalog in engines that have several catalogs."""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    type: the name of the type of its values, as in the logs that they are parsed from (see
    arrow_types.py).
    meaning: the definition, which `giscope schema` prints.
    unit: the unit of its values.
    source: the section of the paper, or the RFC, that defines it.
    required: it is never null. Other columns are null if the value could not be measured.
    encoding: how Parquet stores it, if a measurement showed that it matters. By default floating
    point numbers, which seldom repeat, are stored plainly and other values by a dictionary.
    compression: how Parquet compresses it.
    """

    name: str
    type: str
    meaning: str
    unit: str = ""
    source: str = ""
    required: bool = False
    encoding: str = ""
    compression: str = ZSTD
    fits_int32: bool = False
    """True if its values are below 2^31, whatever the type."""

    @property
    def stored_type(self) -> str:
        """The name of the type in files and for readers: signed.

        Iceberg, Spark and Java have signed integers only. For a condition on unsigned integers,
        Spark's Iceberg reader silently finds no rows.
        """
        return "int32" if self.fits_int32 else SIGNED.get(self.type, self.type)

    @property
    def parquet_encoding(self) -> str:
        """The encoding of the column in Parquet."""
        return self.encoding or (PLAIN if self.type == "double" else DICTIONARY)

    @property
    def comment(self) -> str:
        """The meaning, unit and source in one line."""
        unit = f" [{self.unit}]" if self.unit else ""
        return f"{self.meaning}{unit}" + (f" ({self.source})" if self.source else "")


PARTITION_COLUMNS = (
    Column("network", "string", "the network's name in the networks file", required=True),
    Column("date", "date32[day]", "UTC day", required=True),
)


@dataclass(frozen=True)
class Table:
    """One table; `row` defines what one row is.

    The partition columns (`network` and `date`) are the names of the folders with the files. Every
    reader sees them as columns, but the files do not store them.
    """

    name: str
    row: str
    columns: tuple[Column, ...]
    partitions: tuple[Column, ...] = PARTITION_COLUMNS
    sorted_by: tuple[str, ...] = ()
    """Columns by which each file is sorted. Empty: no order is promised."""
    statistics_columns: tuple[str, ...] = ()
    """Columns with their minimum and maximum in each row group; by these, readers skip row groups.

    Empty: all columns have them.
    """
    group_columns: tuple[str, ...] = ()
    """Columns of a mart that, with network and date, define its groups.

    A group may have only one user and so identify a person. The other columns are values in a
    group, bins of histograms among them. See spark_jobs/figures/suppressed_groups.
    """

    @cached_property
    def arrow(self) -> pa.Schema:
        """The columns stored in each file."""
        return _arrow(self.columns)

    @cached_property
    def layout(self) -> str:
        """A hash of the names and types of the stored columns, which distinguishes versions."""
        columns = ",".join(f"{field.name} {field.type}" for field in self.arrow)
        return f"{crc32(columns.encode()):08x}"

    @cached_property
    def arrow_dictionary(self) -> pa.Schema:
        """The columns stored in each file, with strings as dictionaries: for many rows."""
        import pyarrow as pa  # here, because `giscope schema` does without

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
        """The options with which a ParquetWriter stores the columns."""
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
        """The columns that a reader sees."""
        return _arrow(self.partitions + self.columns)


def _parquet_paths(column: Column) -> list[str]:
    """Return a column's paths in Parquet, which stores elements, keys and values as columns."""
    if column.type.startswith("list<"):
        return [f"{column.name}.list.element"]
    if column.type.startswith("map<"):
        return [f"{column.name}.key_value.{part}" for part in ("key", "value")]
    return [column.name]


def _arrow(columns: tuple[Column, ...]) -> pa.Schema:
    import pyarrow as pa  # here, because `giscope schema` does without

    from schemas.arrow_types import ARROW_TYPES

    return pa.schema(
        [pa.field(c.name, ARROW_TYPES[c.stored_type], nullable=not c.required) for c in columns]
    )
