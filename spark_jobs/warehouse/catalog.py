"""The catalog: the list of what is published, which is an SQL database.

One of its transactions publishes units: a reader sees all tables of a unit before the change, or
all of them after it. Transactions run one at a time. Each has a later time than those before (ns
since 1970), whatever the hosts' clocks say, and a file's times are those of the transactions that
published and superseded it.

A file goes through these states:

- registered: a job is about to put the file at its path. If the job is killed, the catalog still
  knows the file, so that a later job can remove it.
- published: the file belongs to a published unit.
- superseded: a newer version of the unit, or a merged file, replaced it. It stays for some time,
  for those who still read it.

The same database has the tables of Iceberg's own SQL catalog, in the layout of Iceberg's JDBC
catalogs. The Iceberg tables follow from this list: they show the files that were current at the
time in SHOWN. One transaction moves all of them, and this time.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import chain
from threading import RLock
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from schemas import CATALOG_NAME
from spark_jobs.base.errors import UserError
from spark_jobs.warehouse.catalog_tables import (
    FILES,
    ICEBERG_TABLES,
    NAMESPACE,
    OWN_TABLES,
    SCHEMA,
    STORED,
    UNIT,
    UNITS,
)
from spark_jobs.warehouse.database import Database
from spark_jobs.warehouse.facts import Facts, ShownFacts
from spark_jobs.warehouse.targets import day_text, table_name
from spark_jobs.warehouse.units import Content, PublishedUnit, Unit

MERGED = Unit("merged", "all")
"""Stands, in the list of files, for the unit of merged files, which belong to no unit.

The table giscope_stored says which files of units have their rows in a merged file, and what each
of these files was.
"""
SHOWN = Unit("made", "all", "Iceberg tables")
"""The unit whose facts are ShownFacts."""
IS_CURRENT = and_(FILES.c.published, FILES.c.superseded_ns.is_(None))
FILE = ("path", "size", "xxh3")
"""The columns of a file's path and content."""
LATEST_GENERATION = select(func.coalesce(func.max(UNITS.c.generation), 0))


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
    facts: Facts | dict[str, Any]
    files: list[File]
    unchanged: Collection[str] = ()


@dataclass
class FileChanges:
    """Files that an Iceberg table's next snapshot adds or removes."""

    add: list[File] = field(default_factory=list)
    remove: list[File] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.add or self.remove)


class MetadataChange(NamedTuple):
    """The locations of an Iceberg table's metadata before a change (None: new table) and after."""

    before: str | None
    after: str


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


class UnitCatalog:
    """The catalog of a warehouse.

    Units that were read stay in memory; only what changed since then is read again.
    """

    def __init__(
        self, database: Database, check_identity: Callable[[Connection], None] = lambda _: None
    ):
        """Use a database; each transaction calls check_identity() first.

        check_identity() raises UserError if the database is another warehouse's (see identity.py).
        """
        self._database, self._check_identity = database, check_identity
        self._lock = RLock()
        self._generation = -1
        self._version: int | None = None
        """The database's version when changes were last read (see Database.version)."""
        self._groups: dict[tuple[str, str], UnitGroup] = {}
        self._chosen: dict[tuple[str | None, str | None], list[UnitGroup]] = {}
        """The answers of unit_groups since the groups last changed."""

    def unit_groups(self, network: str | None = None, kind: str | None = None) -> list[UnitGroup]:
        """Return all that is published now, in groups by kind and network."""
        with self._lock:
            self._read_changes()
            if (kind, network) not in self._chosen:
                self._chosen[kind, network] = [
                    self._groups[key]
                    for key in sorted(self._groups)
                    if kind in (None, key[0]) and network in (None, key[1])
                ]
            return self._chosen[kind, network]

    def published(self, unit: Unit) -> PublishedUnit | None:
        """Return a unit as it is published now; None if it is not."""
        for group in self.unit_groups(unit.network, unit.kind):
            return group.by_name.get(unit.name)
        return None

    def create(self) -> None:
        """Make an empty database the warehouse's catalog, before anything else is written."""
        with self._transaction():
            pass

    def register(self, files: Sequence[tuple[Unit, File]]) -> None:
        """Record new files of units, so that the catalog knows them if the job is killed."""
        if files:
            with self._transaction() as session:
                _register(session, files)

    def publish(self, changes: Iterable[CatalogChange]) -> None:
        """Publish new versions of units, whose files are registered, in one transaction."""
        with self._transaction() as session:
            _publish(session, changes)

    def record(self, unit: Unit, facts: Facts) -> None:
        """Publish the facts of a unit that has no files."""
        self.publish([CatalogChange(unit, facts, [])])

    def restore(self, changes: Sequence[CatalogChange]) -> None:
        """Publish units whose files are at their paths already, in one transaction."""
        with self._transaction() as session:
            _register(session, [(change.unit, file) for change in changes for file in change.files])
            _publish(session, changes)

    def merge(self, merged: File, paths: Collection[str]) -> bool:
        """Replace units' files by a merged file, registered as MERGED, that holds their rows.

        Returns False, and changes nothing, if one of the files is not current any more.
        """
        columns = [column for column in FILES.c if column.name in STORED.c]
        parts = select(*columns).where(FILES.c.path.in_(paths), IS_CURRENT)
        with self._transaction() as session:
            found = [row._asdict() | {"stored_in": merged.path} for row in session.execute(parts)]
            if len(found) < len(paths):
                return False
            now = _next_ns(session)
            session.execute(insert(STORED), found)
            _supersede(session, paths, now)
            _mark_published(session, [merged], now)
            _mark_units_changed(session, merged.path)
        return True

    def files_in_merged(self, path: str) -> list[MergedPart]:
        """Return the units' files whose rows a merged file holds."""
        query = select(STORED).where(STORED.c.stored_in == path).order_by(STORED.c.path)
        return [
            MergedPart(Unit(row.kind, row.network, row.name), _file(row))
            for row in self._query(query)
        ]

    def merged_files_of(self, unit: Unit) -> list[tuple[str, Content]]:
        """Return the merged files that hold rows of a unit."""
        query = (
            select(FILES)
            .where(FILES.c.path.in_(select(STORED.c.stored_in).where(_is_of(STORED, unit))))
            .order_by(FILES.c.path)
        )
        return [_file(row)[:2] for row in self._query(query)]

    def split(self, path: str, parts: list[MergedPart]) -> None:
        """Replace a merged file by the registered files that hold its rows."""
        with self._transaction() as session:
            now = _next_ns(session)
            _mark_published(session, [part.file for part in parts], now)
            _supersede(session, [path], now)
            _mark_units_changed(session, path)
            session.execute(delete(STORED).where(STORED.c.stored_in == path))

    def paths(self, tables: Collection[str], ns: int | None = None) -> list[str]:
        """Return the sorted paths of some tables' files that are current, or were at a time.

        ns: that time (ns since 1970). Files of other tables are not read.
        """
        condition = IS_CURRENT if ns is None else _was_current(ns)
        query = select(FILES.c.path).where(condition, _is_in(tables)).order_by(FILES.c.path)
        return [row.path for row in self._query(query)]

    def metadata_locations(self) -> dict[str, str]:
        """Return the location of each Iceberg table's current metadata, by table."""
        columns = ICEBERG_TABLES.c.table_name, ICEBERG_TABLES.c.metadata_location
        return {row[0]: row[1] for row in self._query(select(*columns).where(OWN_TABLES))}

    def shown_ns(self) -> int:
        """Return the time whose files the Iceberg tables show (ns since 1970); 0 without any."""
        shown = self.published(SHOWN)
        return ShownFacts.of(shown).until_ns if shown else 0

    def latest_ns(self) -> int:
        """Return the time of the last transaction that published or superseded a file."""
        if not self._database.exists():
            return 0
        with self._database.reading() as session:
            return _latest_ns(session)

    def changes(self, until_ns: int, new: Collection[str] = ()) -> dict[str, FileChanges]:
        """Return, by table, the changes that let the Iceberg tables show a later time.

        until_ns: the time. new: tables that have no Iceberg table, or get another: all files of
        the time are added. Tables without changes are left out.
        """
        since_ns = self.shown_ns()
        in_new = _is_in(new)
        is_shown, is_wanted = and_(_was_current(since_ns), ~in_new), _was_current(until_ns)
        is_changed = or_(in_new, FILES.c.since_ns > since_ns, FILES.c.superseded_ns > since_ns)
        columns = is_shown.label("is_shown"), is_wanted.label("is_wanted")
        query = select(FILES, *columns).where(is_changed).order_by(FILES.c.path)
        found: dict[str, FileChanges] = defaultdict(FileChanges)
        for row in self._query(query):
            if row.is_wanted and not row.is_shown:
                found[table_name(row.path)].add.append(_file(row))
            elif row.is_shown and not row.is_wanted:
                found[table_name(row.path)].remove.append(_file(row))
        return dict(found)

    def set_metadata(self, metadata: Mapping[str, MetadataChange], until_ns: int) -> None:
        """Replace the metadata of Iceberg tables, by name, in one transaction.

        until_ns: the time whose files all Iceberg tables show then.

        Raises UserError, and changes nothing, if a table's metadata are not those before the
        change.
        """
        with self._transaction() as session:
            for table, (before, after) in metadata.items():
                if after != before and not _replace_location(session, table, before, after):
                    raise UserError(
                        f"Iceberg table {table}: another job changed it meanwhile; run again"
                    )
            _publish(session, [CatalogChange(SHOWN, ShownFacts(until_ns=until_ns), [])])

    def drop_iceberg_tables(self, tables: Collection[str]) -> None:
        """Drop some Iceberg tables, so that the next update makes new ones. Data files stay."""
        if tables:
            with self._transaction() as session:
                is_one = ICEBERG_TABLES.c.table_name.in_(tables)
                session.execute(delete(ICEBERG_TABLES).where(OWN_TABLES, is_one))

    def removable_files(self, before_ns: int) -> dict[str, int]:
        """Return the files that were superseded, or registered and never published, before a time.

        The Iceberg tables do not show them now. Each comes with the time of that event (ns since
        1970).
        """
        since = func.coalesce(FILES.c.superseded_ns, FILES.c.since_ns)
        is_shown = and_(FILES.c.published, FILES.c.superseded_ns > self.shown_ns())
        query = select(FILES.c.path, since).where(~IS_CURRENT, ~is_shown, since < before_ns)
        return {row[0]: row[1] for row in self._query(query)}

    def forget_files(self, paths: Iterable[str]) -> None:
        """Delete the records of files that were removed."""
        with self._transaction() as session:
            _for_each(session, delete(FILES).where(FILES.c.path == bindparam("at")), paths)

    def known_files(self) -> set[str]:
        """Return the paths of all files that are registered, published or superseded."""
        return {row.path for row in self._query(select(FILES.c.path))}

    def all_texts(self) -> Iterator[str]:
        """Yield every text value in the database's tables."""
        for table in SCHEMA.sorted_tables:
            for row in self._query(select(table)):
                yield from (value for value in row if isinstance(value, str))

    def _read_changes(self) -> None:
        """Read the units that have changed since the last call."""
        if not self._database.exists():
            return
        version = self._database.version()
        if version is not None and version == self._version:
            return
        with self._database.reading() as session:
            latest = session.execute(LATEST_GENERATION).scalar_one()
            if latest != self._generation:
                changed = select(UNITS.c.kind, UNITS.c.network).distinct()
                for row in session.execute(changed.where(UNITS.c.generation > self._generation)):
                    self._groups[row.kind, row.network] = UnitGroup(_read_units(session, *row))
                self._generation, self._chosen = latest, {}
        self._version = version

    def _query(self, query: Any) -> Sequence[Any]:
        if not self._database.exists():
            return []
        with self._database.reading() as session:
            return session.execute(query).all()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._lock:
            try:
                with self._database.transaction() as session:
                    self._check_identity(session)
                    yield session
            finally:
                self._version = None


def _replace_location(session: Connection, table: str, before: str | None, after: str) -> bool:
    """Set the location of an Iceberg table's metadata.

    Returns False, and changes nothing, if the table's location is not `before` (None: the table is
    new).
    """
    key = {"catalog_name": CATALOG_NAME, "table_namespace": NAMESPACE, "table_name": table}
    is_it = and_(OWN_TABLES, ICEBERG_TABLES.c.table_name == table)
    found = session.execute(select(ICEBERG_TABLES.c.metadata_location).where(is_it)).scalar()
    if found != before:
        return False
    values = {"metadata_location": after, "previous_metadata_location": before}
    if before is None:
        session.execute(insert(ICEBERG_TABLES).values(**key, **values, iceberg_type="TABLE"))
    else:
        session.execute(update(ICEBERG_TABLES).where(is_it).values(values))
    return True


def _is_of(table: Table, unit: Unit) -> ColumnElement[bool]:
    columns = table.c
    return and_(
        columns.kind == unit.kind, columns.network == unit.network, columns.name == unit.name
    )


def _is_in(tables: Iterable[str]) -> ColumnElement[bool]:
    """Return the condition that a file is of one of some tables."""
    return or_(False, *(FILES.c.path.startswith(f"{name}/", autoescape=True) for name in tables))


def _was_current(ns: int) -> ColumnElement[bool]:
    """Return the condition that a file was current at a time (ns since 1970)."""
    superseded = FILES.c.superseded_ns
    is_not_over = or_(superseded.is_(None), superseded > ns)
    return and_(FILES.c.published, FILES.c.since_ns <= ns, is_not_over)


def _file(row: Any) -> File:
    return File(row.path, Content(row.size, row.xxh3), row.rows)


def _latest_ns(session: Connection) -> int:
    published = select(FILES.c.since_ns).where(FILES.c.published).order_by(FILES.c.since_ns.desc())
    superseded = select(func.max(FILES.c.superseded_ns))
    return max(session.scalar(query) or 0 for query in (published.limit(1), superseded))


def _next_ns(session: Connection) -> int:
    """Return the time of a transaction, which is later than that of any other."""
    return max(time.time_ns(), _latest_ns(session) + 1)


def _for_each(session: Connection, statement: Any, paths: Iterable[str]) -> None:
    """Run a statement for each path, which it has as the parameter `at`."""
    if rows := [{"at": path} for path in paths]:
        session.execute(statement, rows)


def _register(session: Connection, files: Iterable[tuple[Unit, File]]) -> None:
    now = time.time_ns()
    rows = [
        asdict(unit) | {"path": file.path, "since_ns": now, "published": False}
        for unit, file in files
    ]
    if rows:
        session.execute(insert(FILES), rows)


def _publish(session: Connection, changes: Iterable[CatalogChange]) -> None:
    now, generation = _next_ns(session), session.execute(LATEST_GENERATION).scalar_one()
    for number, change in enumerate(changes, generation + 1):
        current = select(FILES.c.path).where(_is_of(FILES, change.unit), IS_CURRENT)
        paths = set(session.execute(current).scalars())
        _supersede(session, sorted(paths.difference(change.unchanged)), now)
        _mark_published(session, change.files, now)
        facts = change.facts.as_json() if isinstance(change.facts, Facts) else change.facts
        values = {"facts": json.dumps(facts), "generation": number}
        done = session.execute(update(UNITS).where(_is_of(UNITS, change.unit)).values(values))
        if not done.rowcount:
            session.execute(insert(UNITS).values(asdict(change.unit) | values))


def _mark_published(session: Connection, files: Iterable[File], now_ns: int) -> None:
    """Mark registered files as published, with their content."""
    rows = [
        {"at": file.path, **file.content._asdict(), "rows": file.rows, "since_ns": now_ns}
        for file in files
    ]
    if rows:
        session.execute(
            update(FILES).where(FILES.c.path == bindparam("at")).values(published=True), rows
        )


def _supersede(session: Connection, paths: Iterable[str], now_ns: int) -> None:
    is_it = FILES.c.path == bindparam("at")
    _for_each(session, update(FILES).where(is_it).values(superseded_ns=now_ns), paths)


def _mark_units_changed(session: Connection, path: str) -> None:
    """Raise the generation of a merged file's units, so that readers load them again."""
    of_unit = [UNITS.c[name] == STORED.c[name] for name in UNIT]
    has_rows = select(STORED.c.path).where(STORED.c.stored_in == path, *of_unit).exists()
    generation = session.execute(LATEST_GENERATION).scalar_one() + 1
    session.execute(update(UNITS).where(has_rows).values(generation=generation))


def _read_units(session: Connection, kind: str, network: str) -> list[PublishedUnit]:
    """Return the published units of a kind and network, by name."""
    contents: dict[str, dict[str, Content]] = defaultdict(dict)
    stored_in: dict[str, dict[str, Content]] = defaultdict(dict)

    def of_group(table: Table) -> ColumnElement[bool]:
        return and_(table.c.kind == kind, table.c.network == network)

    files = select(FILES.c.name, *(FILES.c[name] for name in FILE))
    for name, path, *content in session.execute(
        files.where(of_group(FILES), IS_CURRENT).order_by(FILES.c.path)
    ):
        contents[name][path] = stored_in[name][path] = Content(*content)
    stored = (
        select(STORED.c.name, *(STORED.c[name] for name in FILE), *(FILES.c[name] for name in FILE))
        .where(of_group(STORED), FILES.c.path == STORED.c.stored_in)
        .order_by(STORED.c.path)
    )
    for name, path, size, xxh3, merged, *content in session.execute(stored):
        contents[name][path] = Content(size, xxh3)
        stored_in[name][merged] = Content(*content)
    units = select(UNITS.c.name, UNITS.c.facts).where(of_group(UNITS)).order_by(UNITS.c.name)
    return [
        PublishedUnit(Unit(kind, network, name), contents[name], json.loads(facts), stored_in[name])
        for name, facts in session.execute(units)
    ]
