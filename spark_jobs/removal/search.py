"""Names looked for everywhere in a warehouse: in its tables, snapshots and other files.

Every file is read, published or not, and unpacked:

- Parquet: every column of texts, with its dictionaries and statistics, and the writer's metadata
- Avro: every record
- DuckDB: the views and tables
- the catalog: every row

Iceberg's snapshots name the files that they show, which may lie elsewhere. All other files are
searched as plain bytes.
"""

from __future__ import annotations

import errno
import gzip
import html
import json
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.base.errors import UserError
from spark_jobs.base.places import ObjectPath, path_of
from spark_jobs.capture.removal_filter import OWN_COLUMNS
from spark_jobs.capture.untrusted import kind_of
from spark_jobs.capture.users import PSEUDONYM
from spark_jobs.figures.tables import TABLES
from spark_jobs.warehouse.files import open_parquet
from spark_jobs.warehouse.targets import network_of

if TYPE_CHECKING:
    from spark_jobs.warehouse.store import Warehouse

CHUNK_BYTES = 1 << 24
"""Number of bytes of a file that are searched at a time."""
MAGIC_BYTES = 16
"""Number of bytes at a file's start that show its format."""
CATALOG = "the catalog"
DAMAGE_ERRORS = (
    OSError, UserError, pa.ArrowException, ValueError, EOFError, LookupError, zlib.error,
    SystemError, MemoryError,
)  # fmt: skip
"""The errors that damaged files cause.

PyIceberg raises the last two for a size that cannot be.
"""


class Occurrence(NamedTuple):
    """A place where a name was found: a file or CATALOG, and the column of a table's file."""

    path: str
    column: str | None
    name: str


@dataclass(frozen=True)
class Scope:
    """The files and columns where a name is that of a network's user, and not of another person.

    It is needed if the network's users have no names of their own.

    - network: the network
    - far_in: other networks in which the far end of a connection may be the user
    - pages: paths below the root of pages that are of other networks alone
    """

    network: str
    far_in: frozenset[str]
    pages: frozenset[str]

    def has(self, target: str, column: str | None) -> bool:
        """Return whether a name in a file, or in its column, is the user's.

        target: the file's path below the root.
        """
        network = network_of(target)
        if network in (None, self.network):
            return target not in self.pages
        return column not in OWN_COLUMNS and network in self.far_in


@dataclass
class SearchReport:
    """The result of a search.

    - names: number of names that were looked for
    - tables, snapshots, files: numbers of those that were searched
    - found: where names were found
    - unread: a line for each thing that could not be searched
    """

    names: int
    tables: int = 0
    snapshots: int = 0
    files: int = 0
    found: list[Occurrence] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    @property
    def summary(self) -> str:
        """A summary of what was searched, in words."""
        names, *places = (
            f"{count:,} {what}" + ("" if count == 1 else "s")
            for count, what in (
                (self.names, "name"),
                (self.tables, "table"),
                (self.snapshots, "snapshot"),
                (self.files, "file"),
            )
        )
        return f"looked for {names} in {', '.join(places)} and {CATALOG}"

    @property
    def problems(self) -> list[str]:
        """A line for each place that has a name, or could not be searched."""
        return [
            *(_line(occurrence) for occurrence in sorted(set(self.found), key=repr)),
            *self.unread,
        ]


class Name:
    """A name to look for.

    In texts it is looked for as it is, in files also as HTML, JSON and URLs write it. A pseudonym
    counts anywhere, another name only as a whole word: 10.0.0.1 is not in 10.0.0.12.
    """

    def __init__(self, text: str):
        self.text = text
        self.forms = {text, html.escape(text), json.dumps(text)[1:-1], quote(text, safe="")}
        pattern = "|".join(sorted(map(re.escape, self.forms), key=len, reverse=True))
        if not PSEUDONYM.fullmatch(text):
            longer = "[0-9A-Za-z]|:[0-9A-Fa-f]" if ":" in text else r"[0-9A-Za-z]|\.[0-9]"
            pattern = rf"(?<![0-9A-Za-z])(?<![0-9]\.)(?:{pattern})(?!{longer})"
        self._pattern, self._bytes = re.compile(pattern), re.compile(pattern.encode())
        self.max_bytes = max(len(form.encode()) for form in self.forms)
        """The length of the name's longest form, in bytes."""

    def is_in(self, text: str | bytes) -> bool:
        """Return whether the name stands in a text."""
        if isinstance(text, bytes):
            return self._bytes.search(text) is not None
        return self._pattern.search(text) is not None

    def is_among(self, texts: pa.Array) -> bool:
        """Return whether the name stands in one of an array's texts."""
        return any(
            self.is_in(text)
            for form in self.forms
            for text in texts.filter(pc.match_substring(texts, form)).to_pylist()
        )


def search_names(
    warehouse: Warehouse, names: Iterable[str], scope: Scope | None = None
) -> SearchReport:
    """Look for names everywhere in a warehouse.

    scope: where the names are not those of other people; None: everywhere.
    """
    searched = [Name(name) for name in names]
    longest = max((name.max_bytes for name in searched), default=0)
    report = SearchReport(len(searched))
    root = warehouse.root.resolve()
    files = {str(path): path for path in _files_below(root, report)}
    published = [path for paths in warehouse.files_by_table().values() for path in paths]
    other_paths = [
        *(root / path.relative_to(warehouse.root) for path in published),
        *_snapshot_files(warehouse, report),
    ]
    files |= {str(path): path for path in other_paths if str(path) not in files and path.exists()}

    def search_file(path: Path) -> tuple[list[Occurrence], list[str]]:
        target = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
        found: list[Occurrence] = []
        try:
            for column, text in _texts_of_file(path, target, longest):
                if scope is None or scope.has(target, column):
                    hits = [name for name in searched if _has(text, name)]
                    found += [Occurrence(str(path), column, name.text) for name in hits]
        except FileNotFoundError:  # a job has removed it meanwhile
            return [], []
        except DAMAGE_ERRORS as error:
            return found, [f"{path}: cannot be searched: {kind_of(error)}"]
        return found, []

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for found, unread in pool.map(search_file, [files[name] for name in sorted(files)]):
            report.found += found
            report.unread += unread
    table_names = {
        path.relative_to(root).parts[0]
        for path in files.values()
        if path.suffix == ".parquet" and path.is_relative_to(root)
    }
    report.files, report.tables = len(files), len(table_names.intersection(TABLES))
    for text in warehouse.catalog_texts():
        report.found += [
            Occurrence(CATALOG, None, name.text) for name in searched if name.is_in(text)
        ]
    return report


def _has(text: str | bytes | pa.Array, name: Name) -> bool:
    return name.is_among(text) if isinstance(text, pa.Array) else name.is_in(text)


def _line(occurrence: Occurrence) -> str:
    column = f" in column {occurrence.column}" if occurrence.column else ""
    remedy = "" if occurrence.path == CATALOG else ": remove the file, or the name from it"
    return f"{occurrence.path}: still contains {occurrence.name}{column}{remedy}"


def _files_below(root: Path, report: SearchReport) -> Iterator[Path]:
    """Yield all files below the root; report folders that cannot be listed."""
    if isinstance(root, ObjectPath):
        yield from (root / path for path, _ in root.walk())
        return

    def add_unread(error: OSError) -> None:
        report.unread.append(f"{error.filename}: cannot be searched: {error.strerror}")

    for folder, _, names in os.walk(root, onerror=add_unread):
        yield from (path for name in names if (path := Path(folder, name)).is_file())


def _snapshot_files(warehouse: Warehouse, report: SearchReport) -> list[Path]:
    """Return the data files that Iceberg's snapshots show; count the snapshots."""
    from spark_jobs.warehouse.iceberg import files_by_snapshot

    found: set[str] = set()
    for table, location in warehouse.metadata_locations().items():
        try:
            shown = files_by_snapshot(location)
        except DAMAGE_ERRORS as error:
            report.unread.append(f"snapshots of {table}: cannot be searched: {kind_of(error)}")
            continue
        report.snapshots += len(shown)
        found = found.union(*shown.values())
    return [path_of(path) for path in sorted(found)]


Text = tuple[str | None, str | bytes | pa.Array]
"""A text or an array of texts, and its column if it is of a table's file."""


def _texts_of_file(path: Path, target: str, longest: int) -> Iterator[Text]:
    """Yield the texts of a file: its path below the root, and its content.

    longest: the length of the longest name, in bytes
    """
    yield None, target
    with path.open("rb", buffering=0) as file:
        magic = file.read(MAGIC_BYTES)
    if magic[:4] == b"PAR1" or path.suffix == ".parquet":
        yield from _parquet_texts(path)
        return
    if magic[:4] == b"Obj\1":
        yield from ((None, text) for text in _avro_texts(path))
    elif magic[8:12] == b"DUCK":
        yield from ((None, text) for text in _duckdb_texts(path))
    yield from ((None, chunk) for chunk in _chunks(path, magic, longest))


def _chunks(path: Path, magic: bytes, max_bytes: int) -> Iterator[bytes]:
    """Yield a file's bytes, decompressed if it is gzip.

    The chunks overlap, so that a name at a boundary is whole in one of them.
    """
    with ExitStack() as stack:
        source: Any = stack.enter_context(path.open("rb"))
        if magic[:2] == b"\x1f\x8b":
            source = stack.enter_context(gzip.open(source))
        tail = b""
        while chunk := source.read(CHUNK_BYTES):
            yield tail + chunk
            tail = (tail + chunk)[-max_bytes - 2 :]


def _parquet_texts(path: Path) -> Iterator[Text]:
    """Yield the texts of columns, of their statistics, and of the writer's metadata."""
    with open_parquet(path) as file:
        schema, metadata = file.schema_arrow, file.metadata
    yield from ((None, text) for item in (metadata.metadata or {}).items() for text in item)
    columns = [field.name for field in schema if _has_texts(field.type)]
    dictionaries = [name for name in columns if _is_text(schema.field(name).type)]
    with open_parquet(path, read_dictionary=dictionaries) as file:
        for number in range(metadata.num_row_groups):
            for name in columns:
                rows = file.read_row_group(number, columns=[name])
                for chunk in rows.column(0).chunks if rows.num_columns else ():
                    yield from ((name, texts) for texts in _text_arrays(chunk))
            group = metadata.row_group(number)
            for column in map(group.column, range(group.num_columns)):
                limits = column.statistics
                if limits and limits.physical_type == "BYTE_ARRAY" and limits.has_min_max:
                    yield column.path_in_schema, limits.min
                    yield column.path_in_schema, limits.max


def _is_text(type_: pa.DataType) -> bool:
    return type_ in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def _has_texts(type_: pa.DataType) -> bool:
    """Return whether values of a type contain texts."""
    return next(_text_arrays(pa.nulls(0, type_)), None) is not None


def _text_arrays(array: pa.Array) -> Iterator[pa.Array]:
    """Yield all texts of an array, dictionary entries that no row uses included."""
    if isinstance(array, pa.DictionaryArray):
        yield from _text_arrays(array.dictionary)
    elif isinstance(array, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray):  # or a map
        yield from _text_arrays(array.values)
    elif isinstance(array, pa.StructArray):
        for part in array.flatten():
            yield from _text_arrays(part)
    elif _is_text(array.type):
        yield array


def _avro_texts(path: Path) -> Iterator[str]:
    """Yield the records of an Avro file; Iceberg's manifests and manifest lists are such files."""
    from pyiceberg.avro.file import AvroFile

    from spark_jobs.warehouse.path_io import PathFile

    file: AvroFile[Any] = AvroFile(PathFile(str(path)))
    with file as records:
        yield from map(repr, records)


def _duckdb_texts(path: Path) -> Iterator[str]:
    """Yield the views of a DuckDB file, and the rows of tables that somebody may have made in it.

    A copy is read, for somebody may have locked the file.
    """
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy.duckdb")
        with path.open("rb") as source, copy.open("wb") as target:
            shutil.copyfileobj(source, target)
        try:
            with duckdb.connect(copy, read_only=True) as connection:
                views = "select sql from duckdb_views() where not internal"
                yield from (text for (text,) in connection.execute(views).fetchall())
                tables = "select schema_name, table_name from duckdb_tables()"
                for names in connection.execute(tables).fetchall():
                    schema, table = (name.replace('"', '""') for name in names)
                    rows = connection.execute(
                        f'select rows::varchar from "{schema}"."{table}" as rows'
                    )
                    while batch := rows.fetchmany(10_000):
                        yield from (text for (text,) in batch)
        except duckdb.Error as error:
            raise OSError(errno.EIO, "damaged DuckDB file") from error
