"""Whether names stand anywhere in a warehouse: in a table, a snapshot or a file.

Every file is read, published or not, and what is packed in it is unpacked: of Parquet every column
of texts, dictionaries and the writer's own words included, of Avro every record, of DuckDB's files
the views and tables, of the catalog every row. Iceberg's snapshots are asked which files they show,
which may lie elsewhere. All else is looked through as it is.
"""

from __future__ import annotations

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
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from schemas import TABLES
from spark_jobs.errors import UserError
from spark_jobs.places import ObjectPath, path_of
from spark_jobs.warehouse.files import opened

if TYPE_CHECKING:
    from spark_jobs.warehouse.store import Warehouse

PSEUDONYM = re.compile("(v6:)?([a-z2-7]{16}|[a-z2-7]{26})")
"""What a keyed pseudonym looks like (see capture/users.py)."""
AT_ONCE = 1 << 24
"""Bytes of a file that are looked through at a time."""
MARK = 16
"""Bytes at a file's begin that tell what it is."""
CATALOG = "the catalog"
FAILURES = (
    OSError, UserError, pa.ArrowException, ValueError, EOFError, LookupError, zlib.error,
    SystemError, MemoryError,
)  # fmt: skip
"""What damaged files lead to; the last two, where PyIceberg is told of a size that cannot be."""


class Place(NamedTuple):
    """Where a name stands: a file or CATALOG, and of a table the column."""

    path: str
    column: str | None
    name: str


@dataclass(frozen=True)
class Scope:
    """Of a network whose users have no names of their own: where their names are not those of other
    people. columns: in those of other networks they are. networks: whose other columns may have
    theirs. pages: that are of other networks alone, paths under the root."""

    network: str
    columns: frozenset[str]
    networks: frozenset[str]
    pages: frozenset[str]

    def has(self, target: str, column: str | None) -> bool:
        """Whether a name in a file (path under the root), or a column of it, is the user's."""
        found = re.search("/network=([^/]+)/", target)
        if not found or found[1] == self.network:
            return target not in self.pages
        return column not in self.columns and found[1] in self.networks


@dataclass
class Search:
    """What was looked into, what was found, and what could not be looked into, a line each."""

    names: int
    tables: int = 0
    snapshots: int = 0
    files: int = 0
    found: list[Place] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    @property
    def looked(self) -> str:
        """What was looked into, in words."""
        parts = [
            f"{count:,} {what}" + ("" if count == 1 else "s")
            for count, what in (
                (self.tables, "table"),
                (self.snapshots, "snapshot"),
                (self.files, "file"),
            )
        ]
        names = f"{self.names:,} name" + ("" if self.names == 1 else "s")
        return f"looked for {names} in {', '.join(parts)} and {CATALOG}"

    @property
    def mistakes(self) -> list[str]:
        """A line for each place that has a name, or could not be looked into."""
        return [*(_line(path_of) for path_of in sorted(set(self.found), key=repr)), *self.unread]


class Name:
    """A name to be looked for: in texts as it is, in files also as HTML, JSON and URLs write it. A
    pseudonym counts wherever it stands, another name only as a whole word: 10.0.0.1 is not in
    10.0.0.12."""

    def __init__(self, text: str):
        self.text = text
        self.forms = {text, html.escape(text), json.dumps(text)[1:-1], quote(text, safe="")}
        pattern = "|".join(sorted(map(re.escape, self.forms), key=len, reverse=True))
        if not PSEUDONYM.fullmatch(text):
            longer = "[0-9A-Za-z]|:[0-9A-Fa-f]" if ":" in text else r"[0-9A-Za-z]|\.[0-9]"
            pattern = rf"(?<![0-9A-Za-z])(?<![0-9]\.)(?:{pattern})(?!{longer})"
        self._pattern, self._bytes = re.compile(pattern), re.compile(pattern.encode())

    @cached_property
    def longest(self) -> int:
        """Bytes of its longest form."""
        return max(len(form.encode()) for form in self.forms)

    def is_in(self, text: str | bytes) -> bool:
        """Whether it stands in a text."""
        if isinstance(text, bytes):
            return self._bytes.search(text) is not None
        return self._pattern.search(text) is not None

    def is_among(self, texts: pa.Array) -> bool:
        """Whether it stands in one of an array's texts."""
        for form in self.forms:
            near = pc.match_substring(texts, form)
            if any(map(self.is_in, texts.filter(pc.fill_null(near, False)).to_pylist())):
                return True
        return False


def look_for(warehouse: Warehouse, names: Iterable[str], scope: Scope | None = None) -> Search:
    """Look for names everywhere in a warehouse; scope: where they are not other people's."""
    wanted = [Name(name) for name in names]
    search = Search(len(wanted))
    root = warehouse.root.resolve()
    files = {str(path): path for path in _files_below(root, search)}
    published = [path for paths in warehouse.tables().values() for path in paths]
    elsewhere = [
        *(root / path.relative_to(warehouse.root) for path in published),
        *_shown(warehouse, search),
    ]
    files |= {str(path): path for path in elsewhere if str(path) not in files and path.exists()}

    def look(path: Path) -> tuple[list[Place], str | None]:
        target = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
        found: list[Place] = []
        try:
            for column, name in _in_file(path, target, wanted):
                if scope is None or scope.has(target, column):
                    found.append(Place(str(path), column, name.text))
        except FileNotFoundError:  # a job has removed it meanwhile
            return [], None
        except FAILURES as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            return found, f"{path}: cannot be looked into: {reason}"
        return found, None

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for found, unread in pool.map(look, [files[name] for name in sorted(files)]):
            search.found += found
            search.unread += [unread] if unread else []
    of_tables = {
        path.relative_to(root).parts[0]
        for path in files.values()
        if path.suffix == ".parquet" and path.is_relative_to(root)
    }
    search.files, search.tables = len(files), len(of_tables.intersection(TABLES))
    for text in warehouse.catalog_texts():
        search.found += [Place(CATALOG, None, name.text) for name in wanted if name.is_in(text)]
    return search


def _line(path_of: Place) -> str:
    column = f" in column {path_of.column}" if path_of.column else ""
    mend = "" if path_of.path == CATALOG else ": remove the file, or the name from it"
    return f"{path_of.path}: {path_of.name} is there still{column}{mend}"


def _files_below(root: Path, search: Search) -> Iterator[Path]:
    """All files under the root; tells of folders that cannot be listed."""
    if isinstance(root, ObjectPath):
        yield from (root / path for path, _ in root.tree())
        return

    def tell(error: OSError) -> None:
        search.unread.append(f"{error.filename}: cannot be looked into: {error.strerror}")

    for folder, _, names in os.walk(root, onerror=tell):
        yield from (path for name in names if (path := Path(folder, name)).is_file())


def _shown(warehouse: Warehouse, search: Search) -> list[Path]:
    """The data files that Iceberg's snapshots show; counts these."""
    from spark_jobs.warehouse.iceberg import shown_by

    found: set[str] = set()
    for table, location in warehouse.snapshots().items():
        try:
            shown = shown_by(location)
        except FAILURES as error:
            search.unread.append(f"snapshots of {table}: cannot be looked into: {error}")
            continue
        search.snapshots += len(shown)
        found = found.union(*shown.values())
    return [path_of(path) for path in sorted(found)]


Hit = tuple[str | None, Name]
"""A column, if the file is of a table, and what stands there."""


def _in_file(path: Path, target: str, names: list[Name]) -> Iterator[Hit]:
    """The names that a file has, or its path under the root."""
    with path.open("rb", buffering=0) as file:
        mark = file.read(MARK)
    looked: Iterator[Any]
    yield from ((None, name) for name in names if name.is_in(target))
    if mark[:4] == b"PAR1" or path.suffix == ".parquet":
        yield from _in_parquet(path, names)
        return
    if mark[:4] == b"Obj\1":
        looked = _avro_texts(path)
    elif mark[8:12] == b"DUCK":
        looked = _duckdb_texts(path)
    else:
        looked = iter(())
    pieces = _pieces(path, mark, max(name.longest for name in names))
    for piece in (part for parts in (looked, pieces) for part in parts):
        yield from ((None, name) for name in names if name.is_in(piece))


def _pieces(path: Path, mark: bytes, longest: int) -> Iterator[bytes]:
    """A file's bytes, unpacked where it is gzip; what may be cut is in two pieces."""
    with ExitStack() as stack:
        unpacked: Any = stack.enter_context(path.open("rb"))
        if mark[:2] == b"\x1f\x8b":
            unpacked = stack.enter_context(gzip.open(unpacked))
        end = b""
        while piece := unpacked.read(AT_ONCE):
            yield end + piece
            end = (end + piece)[-longest - 2 :]


def _in_parquet(path: Path, names: list[Name]) -> Iterator[Hit]:
    """The names in columns of texts, in their statistics and in what the writer added."""
    with opened(path) as file:
        schema, metadata = file.schema_arrow, file.metadata
    texts = [one.name for one in schema if _has_texts(one.type)]
    added = [part for item in (metadata.metadata or {}).items() for part in item]
    yield from ((None, name) for name in names for part in added if name.is_in(part))
    alone = [one for one in texts if _is_text(schema.field(one).type)]
    with opened(path, read_dictionary=alone) as file:
        for number in range(metadata.num_row_groups):
            for column in texts:
                rows = file.read_row_group(number, columns=[column])
                for chunk in rows.column(0).chunks if rows.num_columns else ():
                    for part in _texts_of(chunk):
                        yield from ((column, name) for name in names if name.is_among(part))
            group = metadata.row_group(number)
            for at in range(group.num_columns):
                limits = group.column(at).statistics
                if limits is not None and limits.physical_type == "BYTE_ARRAY":
                    for limit in (limits.min, limits.max) if limits.has_min_max else ():
                        yield from (
                            (group.column(at).path_in_schema, name)
                            for name in names
                            if name.is_in(limit)
                        )


def _is_text(type_: pa.DataType) -> bool:
    kinds = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_binary,
        pa.types.is_large_binary,
    )
    return any(is_one(type_) for is_one in kinds)


def _has_texts(type_: pa.DataType) -> bool:
    """Whether values of this type have texts in them."""
    if pa.types.is_dictionary(type_):
        return _has_texts(type_.value_type)
    parts = [type_.field(n).type for n in range(type_.num_fields)]
    return _is_text(type_) or any(map(_has_texts, parts))


def _texts_of(array: pa.Array) -> Iterator[pa.Array]:
    """All texts that an array has, those of its dictionary that no row has included."""
    if isinstance(array, pa.DictionaryArray):
        yield from _texts_of(array.dictionary)
    elif isinstance(array, pa.MapArray):
        yield from _texts_of(array.keys)
        yield from _texts_of(array.items)
    elif isinstance(array, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray):
        yield from _texts_of(array.values)
    elif isinstance(array, pa.StructArray):
        for part in array.flatten():
            yield from _texts_of(part)
    elif _is_text(array.type):
        yield array


def _avro_texts(path: Path) -> Iterator[str]:
    """The records of an Avro file, as Iceberg's manifests and lists of them are."""
    from pyiceberg.avro.file import AvroFile

    from spark_jobs.warehouse.path_io import PathFile

    file: AvroFile[Any] = AvroFile(PathFile(str(path)))
    with file as records:
        yield from map(repr, records)


def _duckdb_texts(path: Path) -> Iterator[str]:
    """The views of a DuckDB file, and the rows of tables that somebody may have made in it. Of a
    copy: somebody may have locked the file."""
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy.duckdb")
        with path.open("rb") as source, copy.open("wb") as to:
            shutil.copyfileobj(source, to)
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
                    while some := rows.fetchmany(10_000):
                        yield from (text for (text,) in some)
        except duckdb.Error as error:
            raise OSError(str(error).splitlines()[0]) from error
