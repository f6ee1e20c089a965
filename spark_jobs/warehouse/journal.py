"""What is published, in a SQL database: the units, their files, what superseded files are still
there, and which snapshot of each Iceberg table shows them.

A transaction of the database is what publishes: readers see a unit before a change or after it,
with all of its tables. The tables of Iceberg's own catalog are in the same database, as Iceberg's
JDBC catalogs have them, so that the snapshots of many tables change at one stroke, too.
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
from spark_jobs.errors import UserError
from spark_jobs.places import in_object_store
from spark_jobs.warehouse.commits import Commit, Content, Unit
from spark_jobs.warehouse.database import Database, PostgreSQL, Session, SQLite
from spark_jobs.warehouse.object_store_database import ObjectStoreSQLite

CATALOG, LOCKS = "catalog.sqlite", "_locks"
NAMESPACE = "giscope"
"""Of the Iceberg tables, in Iceberg's catalog."""
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
NAMES_OF_TABLES = re.findall(r"create table if not exists (\w+)", "".join(TABLES))
CATALOG_VARIABLE = "GISCOPE_CATALOG"
"""The variable of the environment that names a catalog's database."""
REST_VARIABLE = "GISCOPE_REST_CATALOG"
"""The variable of the environment that names a site's REST catalog, which is told of the tables;"""
REST_WAREHOUSE = f"PYICEBERG_CATALOG__{CATALOG_NAME.upper()}__WAREHOUSE"
"""and that which tells PyIceberg which of a server's it is, where it has several."""
OURS = f"catalog_name = '{CATALOG_NAME}' and table_namespace = '{NAMESPACE}'"
GENERATION = "select coalesce(max(generation), 0) from giscope_units"
IS_THERE = "(published and superseded_ns is null)"
MERGED = "merged"
"""The kind of the files in giscope_files that are no unit's: giscope_stored says which files of
units have their rows in them, and what each of these was."""
WAS_THERE = "(published and since_ns <= ? and (superseded_ns is null or superseded_ns > ?))"


class File(NamedTuple):
    """A published file: its path under the root, what tells it from others, its rows."""

    path: str
    content: Content
    rows: int


class Stored(NamedTuple):
    """A unit's file whose rows are in a merged one, as it was published."""

    unit: Unit
    file: File


class Published(NamedTuple):
    """A unit as it is to be: with these new files, and those of its present ones that stay."""

    unit: Unit
    facts: dict[str, Any]
    files: list[File]
    stay: Collection[str] = ()


@dataclass
class Changes:
    """What an Iceberg table does not show yet: files to add, and to leave out."""

    add: list[File] = field(default_factory=list)
    remove: list[File] = field(default_factory=list)


@dataclass(frozen=True)
class Update:
    """What a table's next metadata are to be: location: of its present ones (None: it is new);
    changes: what a new snapshot shows. Snapshots are forgotten that were replaced before
    replaced_ns, or made before made_ns (ns since 1970) and replaced at all."""

    table: str
    root: str
    location: str | None
    changes: Changes
    replaced_ns: int
    made_ns: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)


class Shown(NamedTuple):
    """An Iceberg table's metadata before a change (None: it is new) and after it; the change."""

    before: str | None
    after: str
    changes: Changes


class Group:
    """The units of a kind and network."""

    def __init__(self, commits: list[Commit]):
        self.commits = commits
        self.by_name = {commit.unit.name: commit for commit in commits}
        self.units: dict[str, list[Commit]] = defaultdict(list)
        """By each file to be read, those whose rows it has."""
        for commit in commits:
            for target in commit.stored:
                self.units[target].append(commit)
        self._files = _by_table_and_day((target, target) for target in self.units)
        self._hashes = _by_table_and_day(
            (target, content.xxh3) for c in commits for target, content in c.contents.items()
        )

    def targets(self, table: str, day: str | None) -> Iterable[str]:
        """The files to be read of a table, of one day or all."""
        return _of_day(self._files.get(table, {}), day)

    def hashes(self, table: str, day: str | None) -> Iterable[str]:
        """The hashes of what was published of a table, of one day or all."""
        return _of_day(self._hashes.get(table, {}), day)


def _by_table_and_day(facts: Iterable[tuple[str, str]]) -> dict[str, dict[str, list[str]]]:
    """Facts of files, each with the file's path."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for target, fact in facts:
        table, _, *rest = target.split("/")
        found[table][rest[0].removeprefix("date=")].append(fact)
    return found


def _of_day(days: Mapping[str, list[str]], day: str | None) -> Iterable[str]:
    return days.get(day, []) if day else chain.from_iterable(days.values())


def database_of(root: Path, uri: str | None = None) -> Database:
    """Where the catalog of a warehouse is: the PostgreSQL database of this URI, else a file in the
    warehouse. Raises UserError where the URI is of something else."""
    if not uri:
        kind = ObjectStoreSQLite if in_object_store(root) else SQLite
        return kind(root / CATALOG, root / LOCKS, TABLES)
    if uri.partition(":")[0] in ("postgresql", "postgresql+psycopg"):
        return PostgreSQL(uri, TABLES, GENERATION)
    raise UserError(f"{CATALOG_VARIABLE}: must be postgresql://USER@HOST/DATABASE")


class Journal:
    """What is published, as a database says. claim: called in each transaction before anything
    else, to refuse the database if it is another warehouse's (see identity.py)."""

    def __init__(self, database: Database, claim: Callable[[Session], None] = lambda session: None):
        self._database, self._claim = database, claim
        self._lock = RLock()
        self._version: int | None = None
        self._generation = -1
        self._groups: dict[tuple[str, str], Group] = {}
        self._kinds: list[str] = []
        self._networks: list[str] = []

    def groups(self, network: str | None = None, kind: str | None = None) -> list[Group]:
        """What is published now, by kind and network."""
        self._refresh()
        with self._lock:
            return [
                group
                for of_kind in ([kind] if kind else self._kinds)
                for name in ([network] if network else self._networks)
                if (group := self._groups.get((of_kind, name)))
            ]

    def commit(self, unit: Unit) -> Commit | None:
        """A unit as it stands, or None."""
        for group in self.groups(unit.network, unit.kind):
            return group.by_name.get(unit.name)
        return None

    def begin_catalog(self) -> None:
        """Make an empty database the warehouse's catalog, before anything else is written."""
        with self._transaction():
            pass

    def begin(self, changes: Sequence[Published], now_ns: int) -> None:
        """Say which files units are about to get, so that they are known if that is broken off."""
        if any(change.files for change in changes):
            with self._transaction() as database:
                for change in changes:
                    _begin(database, change.unit, change.files, now_ns)

    def publish(self, changes: Iterable[Published], now_ns: int) -> None:
        """Let units be these facts, and these files, which were begun, all at one stroke."""
        with self._transaction() as database:
            for change in changes:
                _publish(database, change, now_ns)

    def restore(self, changes: Iterable[Published]) -> None:
        """Units with files that are in their places, all at one stroke."""
        with self._transaction() as database:
            for change in changes:
                _begin(database, change.unit, change.files, 0)
                _publish(database, change, 0)

    def merge(self, merged: File, paths: list[str], now_ns: int) -> bool:
        """Let a file, which was begun as one of MERGED, have the rows of units' files; False where
        one of these is not there any more, and nothing changes."""
        is_there = f"select 1 from giscope_files where path = ? and {IS_THERE}"
        with self._transaction() as database:
            if not all(database.execute(is_there, (path,)).fetchone() for path in paths):
                return False
            database.executemany(
                """insert into giscope_stored
                select path, kind, network, name, size, xxh3, rows, ?
                from giscope_files where path = ?""",
                [(merged.path, path) for path in paths],
            )
            _supersede(database, paths, now_ns)
            _fill(database, [merged])
            _tell_of_stored(database, merged.path)
        return True

    def stored_in(self, path: str) -> list[Stored]:
        """What a merged file has the rows of."""
        query = """select kind, network, name, path, size, xxh3, rows from giscope_stored
            where stored_in = ? order by path"""
        return [
            Stored(Unit(*key), File(target, Content(size, xxh3), rows))
            for *key, target, size, xxh3, rows in self._ask(query, (path,))
        ]

    def merged_with(self, unit: Unit) -> list[tuple[str, Content]]:
        """The merged files that have rows of a unit."""
        query = """select distinct files.path, files.size, files.xxh3
            from giscope_stored as stored join giscope_files as files on files.path = stored_in
            where stored.kind = ? and stored.network = ? and stored.name = ? order by files.path"""
        return [(path, Content(*content)) for path, *content in self._ask(query, _key(unit))]

    def begin_split(self, parts: list[Stored], now_ns: int) -> None:
        """As begin, of files that are to have a merged one's rows."""
        with self._transaction() as database:
            for unit, file in parts:
                _begin(database, unit, [file], now_ns)

    def split(self, path: str, parts: list[Stored], now_ns: int) -> None:
        """Let the rows of a merged file be in others again, which were begun."""
        with self._transaction() as database:
            _fill(database, [part.file for part in parts])
            _supersede(database, [path], now_ns)
            _tell_of_stored(database, path)
            database.execute("delete from giscope_stored where stored_in = ?", (path,))

    def changes(self) -> dict[str, Changes]:
        """By table, what its snapshot does not show yet."""
        found: dict[str, Changes] = defaultdict(Changes)
        for file in self._files(f"{IS_THERE} and not listed"):
            found[_table(file.path)].add.append(file)
        for file in self._files("listed and superseded_ns is not null"):
            found[_table(file.path)].remove.append(file)
        return dict(found)

    def _files(self, which: str) -> list[File]:
        rows = self._ask(f"select path, size, xxh3, rows from giscope_files where {which}")
        return [File(path, Content(size, xxh3), rows) for path, size, xxh3, rows in rows]

    def paths(self, tables: Sequence[str], ns: int | None = None) -> list[str]:
        """The paths of some tables' files that are published, or were at a time (ns since 1970),
        sorted. All else that is published is not read."""
        if not tables:
            return []
        there, when = (IS_THERE, ()) if ns is None else (WAS_THERE, (ns, ns))
        of_tables = " or ".join("path like ?" for _ in tables)
        rows = self._ask(
            f"select path from giscope_files where {there} and ({of_tables}) order by path",
            (*when, *(f"{table}/%" for table in tables)),
        )
        return [path for (path,) in rows]

    def snapshots(self) -> dict[str, str]:
        """Where the metadata of each Iceberg table are."""
        return dict(
            self._ask(f"select table_name, metadata_location from iceberg_tables where {OURS}")
        )

    def show(self, shown: Mapping[str, Shown]) -> None:
        """Let Iceberg tables, by name, have other metadata, which show some changes.

        Raises UserError, and changes nothing, if one has other metadata than those that were
        changed.
        """
        listed = [
            *((True, file.path) for one in shown.values() for file in one.changes.add),
            *((False, file.path) for one in shown.values() for file in one.changes.remove),
        ]
        with self._transaction() as database:
            for table, (before, after, _) in shown.items():
                if after != before and not _point(database, table, before, after):
                    raise UserError(
                        f"Iceberg table {table}: another job changed it meanwhile; run again"
                    )
            database.executemany("update giscope_files set listed = ? where path = ?", listed)

    def listed(self, table: str) -> set[str]:
        """The paths of the files that a table's snapshot shows, as far as the journal knows."""
        rows = self._ask(
            "select path from giscope_files where listed and path like ?", (f"{table}/%",)
        )
        return {path for (path,) in rows}

    def hide_all(self) -> None:
        """Forget all Iceberg tables: the next that are shown are new ones."""
        self.hide(
            name for (name,) in self._ask(f"select table_name from iceberg_tables where {OURS}")
        )

    def hide(self, tables: Iterable[str]) -> None:
        """As hide_all, of some tables."""
        with self._transaction() as database:
            for table in tables:
                database.execute(
                    f"delete from iceberg_tables where {OURS} and table_name = ?", (table,)
                )
                database.execute(
                    "update giscope_files set listed = false where path like ?", (f"{table}/%",)
                )

    def gone(self, before_ns: int) -> dict[str, int]:
        """Files that were superseded before, or begun and never published, and since when (ns)."""
        since = "coalesce(superseded_ns, since_ns)"
        return dict(
            self._ask(
                f"""select path, {since} from giscope_files
                where not {IS_THERE} and not listed and {since} < ?""",
                (before_ns,),
            )
        )

    def forget(self, paths: Iterable[str]) -> None:
        """Files that are there no more."""
        with self._transaction() as database:
            database.executemany(
                "delete from giscope_files where path = ?", [(path,) for path in paths]
            )

    def known_files(self) -> set[str]:
        """All that are published, superseded or begun."""
        return {path for (path,) in self._ask("select path from giscope_files")}

    def texts(self) -> Iterator[str]:
        """All texts that the database's tables have."""
        for table in NAMES_OF_TABLES:
            for row in self._ask(f"select * from {table}"):
                yield from (value for value in row if isinstance(value, str))

    def _refresh(self) -> None:
        """Read what has changed."""
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
            (self._generation,) = database.execute(GENERATION).fetchone()
            for key in changed:
                self._groups[key] = Group(_commits(database, key))
        self._kinds = sorted({kind for kind, _ in self._groups})
        self._networks = sorted({network for _, network in self._groups})

    def _ask(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        if self._database.version() is None:
            return []
        with self._database.reading() as database:
            return database.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[Session]:
        with self._lock, self._database.transaction() as database:
            self._claim(database)
            yield database
        self._version = None


def _point(database: Session, table: str, before: str | None, after: str) -> bool:
    """Let an Iceberg table have other metadata; False if it has not those from before (None: it is
    new)."""
    if before is None:
        done = database.execute(
            "insert into iceberg_tables values (?, ?, ?, ?, null, 'TABLE') on conflict do nothing",
            (CATALOG_NAME, NAMESPACE, table, after),
        )
    else:
        done = database.execute(
            f"""update iceberg_tables
            set previous_metadata_location = metadata_location, metadata_location = ?
            where {OURS} and table_name = ? and metadata_location = ?""",
            (after, table, before),
        )
    return done.rowcount == 1


def _key(unit: Unit) -> tuple[str, str, str]:
    return unit.kind, unit.network, unit.name


def _begin(database: Session, unit: Unit, files: Iterable[File], now_ns: int) -> None:
    database.executemany(
        """insert into giscope_files (path, kind, network, name, since_ns, published, listed)
        values (?, ?, ?, ?, ?, false, false)""",
        [(file.path, *_key(unit), now_ns) for file in files],
    )


def _publish(database: Session, change: Published, now_ns: int) -> None:
    key = _key(change.unit)
    present = f"""select path from giscope_files
        where kind = ? and network = ? and name = ? and {IS_THERE}"""
    paths = {path for (path,) in database.execute(present, key).fetchall()}
    _supersede(database, sorted(paths.difference(change.stay)), now_ns)
    _fill(database, change.files)
    database.execute(
        """insert into giscope_units
        select ?, ?, ?, ?, coalesce(max(generation), 0) + 1 from giscope_units where true
        on conflict (kind, network, name)
        do update set facts = excluded.facts, generation = excluded.generation""",
        (*key, json.dumps(change.facts)),
    )


def _fill(database: Session, files: Iterable[File]) -> None:
    """Publish files that were begun."""
    database.executemany(
        "update giscope_files set published = true, size = ?, xxh3 = ?, rows = ? where path = ?",
        [(*file.content, file.rows, file.path) for file in files],
    )


def _supersede(database: Session, paths: Iterable[str], now_ns: int) -> None:
    database.executemany(
        "update giscope_files set superseded_ns = ? where path = ?",
        [(now_ns, path) for path in paths],
    )


def _tell_of_stored(database: Session, path: str) -> None:
    """Let those who read the journal see that the units of a merged file are stored otherwise."""
    database.execute(
        f"""update giscope_units set generation = 1 + ({GENERATION}) where exists (
        select 1 from giscope_stored as stored where stored_in = ? and stored.kind
        = giscope_units.kind and stored.network = giscope_units.network
        and stored.name = giscope_units.name)""",
        (path,),
    )


def _table(path: str) -> str:
    return path.partition("/")[0]


def _commits(database: Session, key: tuple[str, str]) -> list[Commit]:
    """A kind's and network's units, by name."""
    contents: dict[str, dict[str, Content]] = defaultdict(dict)
    stored: dict[str, dict[str, Content]] = defaultdict(dict)
    for name, path, size, xxh3 in database.execute(
        f"""select name, path, size, xxh3 from giscope_files
        where kind = ? and network = ? and {IS_THERE} order by path""",
        key,
    ):
        contents[name][path] = stored[name][path] = Content(size, xxh3)
    for name, path, size, xxh3, stored_in, of_all, hash_of_all in database.execute(
        """select stored.name, stored.path, stored.size, stored.xxh3, files.path, files.size,
        files.xxh3 from giscope_stored as stored join giscope_files as files
        on files.path = stored_in where stored.kind = ? and stored.network = ?
        order by stored.path""",
        key,
    ):
        contents[name][path] = Content(size, xxh3)
        stored[name][stored_in] = Content(of_all, hash_of_all)
    return [
        Commit(Unit(*key, name), contents[name], json.loads(facts), stored[name])
        for name, facts in database.execute(
            "select name, facts from giscope_units where kind = ? and network = ? order by name",
            key,
        )
    ]
