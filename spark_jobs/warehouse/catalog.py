"""The catalog: the units that are published, their files, and the Iceberg tables' snapshots.

The catalog is an SQL database. One of its transactions publishes units: a reader sees all tables of
a unit before the change, or all of them after it.

A file goes through these states:

- registered: a job is about to put the file at its path. If the job is killed, the catalog still
  knows the file, so that a later job can remove it.
- published: the file belongs to a published unit.
- superseded: a newer version of the unit, or a merged file, replaced it. It stays for some time,
  for those who still read it.

The same database has the tables of Iceberg's own SQL catalog, in the layout of Iceberg's JDBC
catalogs. So the snapshots of many Iceberg tables change in one transaction, too.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

from schemas import CATALOG_NAME
from schemas.former_names import folders_of_table
from spark_jobs.errors import UserError
from spark_jobs.places import in_object_store
from spark_jobs.warehouse.database import Database, PostgreSQL, Session, SQLite
from spark_jobs.warehouse.object_store_database import ObjectStoreSQLite
from spark_jobs.warehouse.targets import day_text, table_name
from spark_jobs.warehouse.units import Content, PublishedUnit, Unit

CATALOG, LOCKS = "catalog.sqlite", "_locks"
"""The names of the catalog's file and of the folder of locks, in the warehouse's root."""
NAMESPACE = "giscope"
"""The namespace of the Iceberg tables in Iceberg's catalog."""
TABLES = (
    """create table if not exists giscope_units (
        kind text not null, network text not null, name text not null, facts text not null,
        generation bigint not null, primary key (kind, network, name))""",
    """create table if not exists giscope_files (
        path text not null primary key, kind text not null, network text not null,
        name text not null, size bigint, xxh3 text, rows bigint, since_ns bigint not null,
        published boolean not null, superseded_ns bigint, listed boolean not null)""",
    "create index if not exists giscope_files_of on giscope_files (kind, network, name)",
    """create table if not exists giscope_stored (
        path text not null primary key, kind text not null, network text not null,
        name text not null, size bigint, xxh3 text, rows bigint, stored_in text not null)""",
    "create index if not exists giscope_stored_of on giscope_stored (kind, network, name)",
    "create index if not exists giscope_stored_in on giscope_stored (stored_in)",
    """create table if not exists iceberg_tables (
        catalog_name varchar(255) not null, table_namespace varchar(255) not null,
        table_name varchar(255) not null, metadata_location varchar(1000),
        previous_metadata_location varchar(1000), iceberg_type varchar(5),
        primary key (catalog_name, table_namespace, table_name))""",
    """create table if not exists iceberg_namespace_properties (
        catalog_name varchar(255) not null, namespace varchar(255) not null,
        property_key varchar(255) not null, property_value varchar(1000) not null,
        primary key (catalog_name, namespace, property_key))""",
    f"""insert into iceberg_namespace_properties
        values ('{CATALOG_NAME}', '{NAMESPACE}', 'exists', 'true') on conflict do nothing""",
    "create table if not exists giscope_catalog (identity text not null primary key)",
)
TABLE_NAMES = re.findall(r"create table if not exists (\w+)", "".join(TABLES))
CATALOG_VARIABLE = "GISCOPE_CATALOG"
"""The environment variable with the URI of the catalog's database."""
REST_VARIABLE = "GISCOPE_REST_CATALOG"
"""The environment variable with the URI of a site's REST catalog, which is kept in step."""
REST_WAREHOUSE = f"PYICEBERG_CATALOG__{CATALOG_NAME.upper()}__WAREHOUSE"
"""The environment variable with the warehouse's name in a REST server that has several."""
OWN_ICEBERG_TABLES = f"catalog_name = '{CATALOG_NAME}' and table_namespace = '{NAMESPACE}'"
LATEST_GENERATION = "select coalesce(max(generation), 0) from giscope_units"
IS_CURRENT = "(published and superseded_ns is null)"
MERGED = "merged"
"""The kind, in giscope_files, of merged files, which belong to no unit.

The table giscope_stored says which files of units have their rows in a merged file, and what each
of these files was.
"""
WAS_CURRENT = "(published and since_ns <= ? and (superseded_ns is null or superseded_ns > ?))"


class File(NamedTuple):
    """A file that is published: its path below the root, its content, its number of rows."""

    path: str
    content: Content
    rows: int


class MergedPart(NamedTuple):
    """A unit's file, as it was published, whose rows a merged file holds now."""

    unit: Unit
    file: File


class CatalogChange(NamedTuple):
    """The next version of a unit: its facts, its new files, and present files that it keeps."""

    unit: Unit
    facts: dict[str, Any]
    files: list[File]
    unchanged: Collection[str] = ()


@dataclass
class FileChanges:
    """Files that an Iceberg table's next snapshot adds or removes."""

    add: list[File] = field(default_factory=list)
    remove: list[File] = field(default_factory=list)


@dataclass(frozen=True)
class TableUpdate:
    """An order to write the next metadata of an Iceberg table.

    - table: the table's name
    - root: the warehouse's root, absolute
    - location: the location of the present metadata; None for a new table
    - changes: what the next snapshot adds and removes
    - replaced_ns: snapshots that were replaced before this time are dropped (ns since 1970)
    - made_ns: snapshots that were made up to this time, and replaced at any time, are dropped, too
    - properties: table properties to set
    """

    table: str
    root: str
    location: str | None
    changes: FileChanges
    replaced_ns: int
    made_ns: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)


class MetadataChange(NamedTuple):
    """The locations of an Iceberg table's metadata before a change (None: new table) and after."""

    before: str | None
    after: str
    changes: FileChanges


class UnitGroup:
    """All published units of one kind and network."""

    def __init__(self, units: list[PublishedUnit]):
        self.units = units
        self.by_name = {published.unit.name: published for published in units}
        self.by_file: dict[str, list[PublishedUnit]] = defaultdict(list)
        """For each current file, the units whose rows it holds."""
        for published in units:
            for target in published.stored_in:
                self.by_file[target].append(published)
        self._files = _by_table_and_day((target, target) for target in self.by_file)
        self._hashes = _by_table_and_day(
            (target, content.xxh3) for p in units for target, content in p.contents.items()
        )

    def targets(self, table: str, day: str | None) -> Iterable[str]:
        """Return the current files of a table, of one day or of all days."""
        return _of_day(self._files.get(table, {}), day)

    def hashes(self, table: str, day: str | None) -> Iterable[str]:
        """Return the hashes of a table's files as published, of one day or of all days."""
        return _of_day(self._hashes.get(table, {}), day)


def _by_table_and_day(items: Iterable[tuple[str, str]]) -> dict[str, dict[str, list[str]]]:
    """Group (file's path, value) by the path's table and day; return the values."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for target, value in items:
        found[table_name(target)][day_text(target)].append(value)
    return found


def _of_day(days: Mapping[str, list[str]], day: str | None) -> Iterable[str]:
    return days.get(day, []) if day else chain.from_iterable(days.values())


def database_of(root: Path, uri: str | None = None) -> Database:
    """Return the database of a warehouse's catalog.

    This is the PostgreSQL database of the URI or, without a URI, a file in the warehouse. Raises
    UserError if the URI is not of PostgreSQL.
    """
    if not uri:
        kind = ObjectStoreSQLite if in_object_store(root) else SQLite
        return kind(root / CATALOG, root / LOCKS, TABLES)
    if uri.partition(":")[0] in ("postgresql", "postgresql+psycopg"):
        return PostgreSQL(uri, TABLES, LATEST_GENERATION)
    raise UserError(f"{CATALOG_VARIABLE}: must be postgresql://USER@HOST/DATABASE")


class UnitCatalog:
    """The catalog of a warehouse.

    Units that were read stay in memory; only what changed since then is read again.
    """

    def __init__(
        self,
        database: Database,
        check_identity: Callable[[Session], None] = lambda session: None,
    ):
        """Use a database; each transaction calls check_identity() first.

        check_identity() raises UserError if the database is another warehouse's (see identity.py).
        """
        self._database, self._check_identity = database, check_identity
        self._lock = RLock()
        self._version: int | None = None
        self._generation = -1
        self._groups: dict[tuple[str, str], UnitGroup] = {}
        self._kinds: list[str] = []
        self._networks: list[str] = []

    def unit_groups(self, network: str | None = None, kind: str | None = None) -> list[UnitGroup]:
        """Return all that is published now, in groups by kind and network."""
        self._refresh()
        with self._lock:
            return [
                group
                for kind_ in ([kind] if kind else self._kinds)
                for name in ([network] if network else self._networks)
                if (group := self._groups.get((kind_, name)))
            ]

    def published(self, unit: Unit) -> PublishedUnit | None:
        """Return a unit as it is published now; None if it is not."""
        for group in self.unit_groups(unit.network, unit.kind):
            return group.by_name.get(unit.name)
        return None

    def create(self) -> None:
        """Make an empty database the warehouse's catalog, before anything else is written."""
        with self._transaction():
            pass

    def register(self, changes: Sequence[CatalogChange], now_ns: int) -> None:
        """Record the new files of changes, so that the catalog knows them if the job is killed."""
        if any(change.files for change in changes):
            with self._transaction() as database:
                for change in changes:
                    _register(database, change.unit, change.files, now_ns)

    def publish(self, changes: Iterable[CatalogChange], now_ns: int) -> None:
        """Publish new versions of units, whose files are registered, in one transaction."""
        with self._transaction() as database:
            for change in changes:
                _publish(database, change, now_ns)

    def restore(self, changes: Iterable[CatalogChange]) -> None:
        """Publish units whose files are at their paths already, in one transaction."""
        with self._transaction() as database:
            for change in changes:
                _register(database, change.unit, change.files, 0)
                _publish(database, change, 0)

    def merge(self, merged: File, paths: list[str], now_ns: int) -> bool:
        """Replace units' files by a merged file that holds their rows.

        The merged file was registered with the kind MERGED. Returns False, and changes nothing, if
        one of the files is not current any more.
        """
        is_current = f"select 1 from giscope_files where path = ? and {IS_CURRENT}"
        with self._transaction() as database:
            if not all(database.execute(is_current, (path,)).fetchone() for path in paths):
                return False
            database.executemany(
                """insert into giscope_stored
                select path, kind, network, name, size, xxh3, rows, ?
                from giscope_files where path = ?""",
                [(merged.path, path) for path in paths],
            )
            _supersede(database, paths, now_ns)
            _mark_published(database, [merged])
            _mark_units_changed(database, merged.path)
        return True

    def files_in_merged(self, path: str) -> list[MergedPart]:
        """Return the units' files whose rows a merged file holds."""
        query = """select kind, network, name, path, size, xxh3, rows from giscope_stored
            where stored_in = ? order by path"""
        return [
            MergedPart(Unit(*key), File(target, Content(size, xxh3), rows))
            for *key, target, size, xxh3, rows in self._query(query, (path,))
        ]

    def merged_files_of(self, unit: Unit) -> list[tuple[str, Content]]:
        """Return the merged files that hold rows of a unit."""
        query = """select distinct files.path, files.size, files.xxh3
            from giscope_stored as stored join giscope_files as files on files.path = stored_in
            where stored.kind = ? and stored.network = ? and stored.name = ? order by files.path"""
        return [(path, Content(*content)) for path, *content in self._query(query, _key(unit))]

    def register_split(self, parts: list[MergedPart], now_ns: int) -> None:
        """Record the files into which a merged file is about to be split; see register."""
        with self._transaction() as database:
            for unit, file in parts:
                _register(database, unit, [file], now_ns)

    def split(self, path: str, parts: list[MergedPart], now_ns: int) -> None:
        """Replace a merged file by the registered files that hold its rows."""
        with self._transaction() as database:
            _mark_published(database, [part.file for part in parts])
            _supersede(database, [path], now_ns)
            _mark_units_changed(database, path)
            database.execute("delete from giscope_stored where stored_in = ?", (path,))

    def pending_changes(self) -> dict[str, FileChanges]:
        """Return, by table, the changes that its Iceberg snapshot does not show yet."""
        found: dict[str, FileChanges] = defaultdict(FileChanges)
        for file in self._select_files(f"{IS_CURRENT} and not listed"):
            found[table_name(file.path)].add.append(file)
        for file in self._select_files("listed and superseded_ns is not null"):
            found[table_name(file.path)].remove.append(file)
        return dict(found)

    def _select_files(self, condition: str) -> list[File]:
        rows = self._query(f"select path, size, xxh3, rows from giscope_files where {condition}")
        return [File(path, Content(size, xxh3), rows) for path, size, xxh3, rows in rows]

    def paths(self, tables: Sequence[str], ns: int | None = None) -> list[str]:
        """Return the sorted paths of some tables' files that are current, or were at a time.

        ns: that time (ns since 1970). Files of other tables are not read.
        """
        if not tables:
            return []
        condition, times = (IS_CURRENT, ()) if ns is None else (WAS_CURRENT, (ns, ns))
        folders = [folder for table in tables for folder in folders_of_table(table)]
        in_tables = " or ".join("path like ?" for _ in folders)
        rows = self._query(
            f"select path from giscope_files where {condition} and ({in_tables}) order by path",
            (*times, *(f"{folder}/%" for folder in folders)),
        )
        return [path for (path,) in rows]

    def metadata_locations(self) -> dict[str, str]:
        """Return the location of each Iceberg table's current metadata, by table."""
        return dict(
            self._query(
                f"select table_name, metadata_location from iceberg_tables "
                f"where {OWN_ICEBERG_TABLES}"
            )
        )

    def set_metadata(self, metadata: Mapping[str, MetadataChange]) -> None:
        """Replace the metadata of Iceberg tables, by name, in one transaction.

        Raises UserError, and changes nothing, if a table's metadata are not those before the
        change.
        """
        listed = [
            *((True, file.path) for one in metadata.values() for file in one.changes.add),
            *((False, file.path) for one in metadata.values() for file in one.changes.remove),
        ]
        with self._transaction() as database:
            for table, (before, after, _) in metadata.items():
                if after != before and not _replace_location(database, table, before, after):
                    raise UserError(
                        f"Iceberg table {table}: another job changed it meanwhile; run again"
                    )
            database.executemany("update giscope_files set listed = ? where path = ?", listed)

    def listed_files(self, table: str) -> set[str]:
        """Return the files that, by the catalog's records, a table's snapshot shows."""
        rows = self._query(
            "select path from giscope_files where listed and path like ?", (f"{table}/%",)
        )
        return {path for (path,) in rows}

    def drop_all_iceberg_tables(self) -> None:
        """Drop all Iceberg tables, so that the next update makes new ones."""
        self.drop_iceberg_tables(
            name
            for (name,) in self._query(
                f"select table_name from iceberg_tables where {OWN_ICEBERG_TABLES}"
            )
        )

    def drop_iceberg_tables(self, tables: Iterable[str]) -> None:
        """Drop some Iceberg tables, so that the next update makes new ones. Data files stay."""
        with self._transaction() as database:
            for table in tables:
                database.execute(
                    f"delete from iceberg_tables where {OWN_ICEBERG_TABLES} and table_name = ?",
                    (table,),
                )
                for folder in folders_of_table(table):
                    database.execute(
                        "update giscope_files set listed = false where path like ?",
                        (f"{folder}/%",),
                    )

    def removable_files(self, before_ns: int) -> dict[str, int]:
        """Return the files that were superseded, or registered and never published, before a time.

        No Iceberg snapshot that is current shows them. Each comes with the time of that event (ns
        since 1970).
        """
        since = "coalesce(superseded_ns, since_ns)"
        return dict(
            self._query(
                f"""select path, {since} from giscope_files
                where not {IS_CURRENT} and not listed and {since} < ?""",
                (before_ns,),
            )
        )

    def forget_files(self, paths: Iterable[str]) -> None:
        """Delete the records of files that were removed."""
        with self._transaction() as database:
            database.executemany(
                "delete from giscope_files where path = ?", [(path,) for path in paths]
            )

    def known_files(self) -> set[str]:
        """Return the paths of all files that are registered, published or superseded."""
        return {path for (path,) in self._query("select path from giscope_files")}

    def all_texts(self) -> Iterator[str]:
        """Yield every text value in the database's tables."""
        for table in TABLE_NAMES:
            for row in self._query(f"select * from {table}"):
                yield from (value for value in row if isinstance(value, str))

    def _refresh(self) -> None:
        """Read what has changed since the last call."""
        with self._lock:
            version = self._database.version()
            if version is not None and version != self._version:
                self._read_changes()
                self._version = version

    def _read_changes(self) -> None:
        with self._database.reading() as database:
            since = (self._generation,)
            changed = database.execute(
                "select distinct kind, network from giscope_units where generation > ?", since
            ).fetchall()
            (self._generation,) = database.execute(LATEST_GENERATION).fetchone()
            for key in changed:
                self._groups[key] = UnitGroup(_read_units(database, key))
        self._kinds = sorted({kind for kind, _ in self._groups})
        self._networks = sorted({network for _, network in self._groups})

    def _query(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        if self._database.version() is None:
            return []
        with self._database.reading() as database:
            return database.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[Session]:
        with self._lock, self._database.transaction() as database:
            self._check_identity(database)
            yield database
        self._version = None


def _replace_location(database: Session, table: str, before: str | None, after: str) -> bool:
    """Set the location of an Iceberg table's metadata.

    Returns False, and changes nothing, if the table's location is not `before` (None: the table is
    new).
    """
    if before is None:
        done = database.execute(
            "insert into iceberg_tables values (?, ?, ?, ?, null, 'TABLE') on conflict do nothing",
            (CATALOG_NAME, NAMESPACE, table, after),
        )
    else:
        done = database.execute(
            f"""update iceberg_tables
            set previous_metadata_location = metadata_location, metadata_location = ?
            where {OWN_ICEBERG_TABLES} and table_name = ? and metadata_location = ?""",
            (after, table, before),
        )
    return done.rowcount == 1


def _key(unit: Unit) -> tuple[str, str, str]:
    return unit.kind, unit.network, unit.name


def _register(database: Session, unit: Unit, files: Iterable[File], now_ns: int) -> None:
    database.executemany(
        """insert into giscope_files (path, kind, network, name, since_ns, published, listed)
        values (?, ?, ?, ?, ?, false, false)""",
        [(file.path, *_key(unit), now_ns) for file in files],
    )


def _publish(database: Session, change: CatalogChange, now_ns: int) -> None:
    key = _key(change.unit)
    current = f"""select path from giscope_files
        where kind = ? and network = ? and name = ? and {IS_CURRENT}"""
    paths = {path for (path,) in database.execute(current, key).fetchall()}
    _supersede(database, sorted(paths.difference(change.unchanged)), now_ns)
    _mark_published(database, change.files)
    database.execute(
        """insert into giscope_units
        select ?, ?, ?, ?, coalesce(max(generation), 0) + 1 from giscope_units where true
        on conflict (kind, network, name)
        do update set facts = excluded.facts, generation = excluded.generation""",
        (*key, json.dumps(change.facts)),
    )


def _mark_published(database: Session, files: Iterable[File]) -> None:
    """Mark registered files as published, with their content."""
    database.executemany(
        "update giscope_files set published = true, size = ?, xxh3 = ?, rows = ? where path = ?",
        [(*file.content, file.rows, file.path) for file in files],
    )


def _supersede(database: Session, paths: Iterable[str], now_ns: int) -> None:
    database.executemany(
        "update giscope_files set superseded_ns = ? where path = ?",
        [(now_ns, path) for path in paths],
    )


def _mark_units_changed(database: Session, path: str) -> None:
    """Raise the generation of a merged file's units, so that readers load them again."""
    database.execute(
        f"""update giscope_units set generation = 1 + ({LATEST_GENERATION}) where exists (
        select 1 from giscope_stored as stored where stored_in = ? and stored.kind
        = giscope_units.kind and stored.network = giscope_units.network
        and stored.name = giscope_units.name)""",
        (path,),
    )


def _read_units(database: Session, key: tuple[str, str]) -> list[PublishedUnit]:
    """Return the published units of a (kind, network), by name."""
    contents: dict[str, dict[str, Content]] = defaultdict(dict)
    stored_in: dict[str, dict[str, Content]] = defaultdict(dict)
    for name, path, size, xxh3 in database.execute(
        f"""select name, path, size, xxh3 from giscope_files
        where kind = ? and network = ? and {IS_CURRENT} order by path""",
        key,
    ):
        contents[name][path] = stored_in[name][path] = Content(size, xxh3)
    for name, path, size, xxh3, merged, merged_size, merged_xxh3 in database.execute(
        """select stored.name, stored.path, stored.size, stored.xxh3, files.path, files.size,
        files.xxh3 from giscope_stored as stored join giscope_files as files
        on files.path = stored_in where stored.kind = ? and stored.network = ?
        order by stored.path""",
        key,
    ):
        contents[name][path] = Content(size, xxh3)
        stored_in[name][merged] = Content(merged_size, merged_xxh3)
    return [
        PublishedUnit(Unit(*key, name), contents[name], json.loads(facts), stored_in[name])
        for name, facts in database.execute(
            "select name, facts from giscope_units where kind = ? and network = ? order by name",
            key,
        )
    ]
