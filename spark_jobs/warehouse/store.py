"""The warehouse: tables in Parquet files that change as a whole, or not at all.

A warehouse is a folder, or a prefix in an object store. It has

- the Parquet files of the tables: TABLE/network=N/date=D/NAME.parquet,
- the catalog, which knows what is published (see catalog.py),
- an Iceberg table for each table, and DuckDB views in the file VIEWS, for readers other than
  giscope's jobs.

Only spark_jobs/warehouse/ knows these paths.

A *unit* is what is published as a whole, such as all packets of a capture or all tables of a day.
The catalog has a record for each unit: its files, and *facts* (JSON) about how it was made. Some
units have no files, only facts. An *orphan* is a file in the warehouse's folders that the catalog
does not list. A *target* is a file's path below the warehouse's root, as the catalog has it.

A job changes a unit in four steps:

1. It writes the unit's new files to a staging folder, which no reader looks into.
2. It registers the files in the catalog, so that the catalog knows them if the job is killed.
3. It moves the files to their targets.
4. One transaction of the catalog publishes them. The unit's earlier files are *superseded* then.

The jobs read the files that the catalog lists. Other readers use the Iceberg tables or the views.
At its end every job updates these (update_views).

Superseded files, and the Iceberg snapshots that show them, stay for GRACE_TIME, and longer while
a reader on this host has views open that list them. After that time the next job that ends removes
them. If a job is killed, those of its files that are already at their targets stay for GRACE_TIME,
too; the next job removes those that are still in the staging folder.
"""

from __future__ import annotations

import datetime
import os
import tempfile
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from schemas import Table
from spark_jobs.base.errors import UserError
from spark_jobs.base.places import in_object_store, remove_all
from spark_jobs.base.sources import version
from spark_jobs.figures.tables import TABLES
from spark_jobs.warehouse import orphans
from spark_jobs.warehouse.catalog import (
    MERGED,
    CatalogChange,
    File,
    MergedPart,
    UnitCatalog,
)
from spark_jobs.warehouse.compaction import merge, missing_part, small_files, split
from spark_jobs.warehouse.database import CATALOG_VARIABLE, database_of
from spark_jobs.warehouse.disk import CHANGE_BYTES, report_full_disk
from spark_jobs.warehouse.facts import Facts, HistoryHorizon, MadeFacts, PurgeFacts, purge_unit
from spark_jobs.warehouse.files import REMEDY, Written, content_and_rows
from spark_jobs.warehouse.history import END_OF_TIME_NS, HORIZON, History
from spark_jobs.warehouse.iceberg_tables import IcebergTables, read_lost
from spark_jobs.warehouse.identity import IdentityCheck
from spark_jobs.warehouse.orphans import Orphans
from spark_jobs.warehouse.staging import Staging
from spark_jobs.warehouse.storage import STAGING, VIEWS, storage_of
from spark_jobs.warehouse.targets import Partition, day_text, is_partition, table_name
from spark_jobs.warehouse.units import Content, PublishedUnit, Unit, content_of, fingerprint
from spark_jobs.warehouse.views import (
    create_views,
    may_read,
    may_read_comments,
    register_object_store,
    write_views,
)

if TYPE_CHECKING:
    import duckdb

GRACE_TIME = timedelta(days=5)
"""The default time for which superseded files stay: Iceberg's own max-snapshot-age."""
VIEW_SOURCES = ("schemas", "spark_jobs/queries/views.py", "spark_jobs/warehouse")
"""The source code that the views depend on; a change there rebuilds the views."""


class Change(NamedTuple):
    """The next version of a unit.

    - unit: the unit
    - files: its new files, staged (see Staging.files)
    - facts: what the job records about how it made the unit, as a model of facts.py or as JSON;
      they replace the earlier facts
    - unchanged: targets of the unit's present files that the next version keeps. The other present
      files are superseded. If any present file is a merged file, which also holds rows of other
      units, call Warehouse.unmerge first.
    """

    unit: Unit
    files: list[Written]
    facts: Facts | dict[str, Any]
    unchanged: Collection[str] = ()


class FileCount(NamedTuple):
    """The number of a warehouse's files of one kind, and their total size in bytes."""

    label: str
    files: int
    size: int | None


class Warehouse:
    """All tables below one root."""

    def __init__(
        self,
        root: Path,
        grace_time: timedelta = GRACE_TIME,
        catalog: str | None = None,
        catalog_is_lost: bool = False,
    ):
        """Open a warehouse, which need not exist yet.

        grace_time: see GRACE_TIME. catalog: the URI of the catalog's database. The default is the
        value of the environment variable CATALOG_VARIABLE or, without it, a file in the warehouse.
        catalog_is_lost: the catalog is to be rebuilt; see restore.

        Raises UserError if the catalog is another warehouse's (see identity.py).
        """
        for part in root.resolve().parts:
            if is_partition(part):
                raise UserError(
                    f"{root}: rename the folder {part}: readers would take it for a partition of "
                    "the tables"
                )
        self.root, self.grace_time, self._storage = root, grace_time, storage_of(root)
        uri = os.environ.get(CATALOG_VARIABLE) if catalog is None else catalog
        self._database = database_of(root, uri)
        self._identity = IdentityCheck(root, self._database, lambda: any(self._all_files()))
        self._catalog = UnitCatalog(self._database, self._identity)
        self._iceberg_tables = IcebergTables(root, self._catalog)
        self._history = History(root, self._catalog, self._iceberg_tables)
        self._update_deferred, self._catalog_is_lost = False, catalog_is_lost
        self.too_many_orphans = False
        """True if the last clean-up found more orphans than it may remove unasked."""
        if catalog_is_lost:
            self._identity.expect_lost_catalog()
        else:
            self._identity.check()

    def staging(self) -> AbstractContextManager[Staging]:
        """Return a context with a place for a change's new files.

        At its end, files that are not published are removed. If the job is killed, the next job
        removes them. Until the context ends, no published file is removed, because the
        change may read it.

        Raises UserError if the disk is full.
        """
        if not (self._identity.is_confirmed or self._catalog_is_lost):
            self._catalog.create()
        return self._storage.staging(self.locked(STAGING))

    def publish(
        self,
        unit: Unit,
        files: Iterable[Written],
        facts: Facts | dict[str, Any],
        unchanged: Collection[str] = (),
    ) -> None:
        """Publish the next version of one unit; see Change and publish_all."""
        self.publish_all([Change(unit, list(files), facts, unchanged)])

    def publish_facts(self, unit: Unit, facts: Facts) -> None:
        """Publish other facts of a unit, which keeps its files; nothing if they are the same."""
        published = self.published(unit) or PublishedUnit(unit)
        if facts.as_json() != published.facts:
            self.publish(unit, [], facts, published.files)

    def publish_all(self, changes: list[Change]) -> None:
        """Publish the next versions of units, all in one transaction.

        The files that they supersede stay for those who read them; see update_views.
        """
        for_catalog = [
            CatalogChange(c.unit, c.facts, [*map(_file, c.files)], c.unchanged) for c in changes
        ]
        size = sum(file.content.size for change in for_catalog for file in change.files)
        with report_full_disk(self.root, lambda: size + CHANGE_BYTES), self.locked("publish"):
            for change in for_catalog:
                self._split_merged_files_of(change.unit)
            self._put_in_place(
                [(change.unit, file) for change in for_catalog for file in change.files],
                [file for change in changes for file in change.files],
            )
            self._catalog.publish(for_catalog)

    def _put_in_place(self, files: Sequence[tuple[Unit, File]], written: Iterable[Written]) -> None:
        """Register units' new files, and move those that were written to their targets."""
        staged = [file.staged for file in written]
        self._storage.leave_to_catalog(staged)
        self._catalog.register(files)
        self._storage.move_to_targets(staged)

    def unmerge(self, unit: Unit) -> PublishedUnit:
        """Split the merged files that hold rows of a unit; return the unit as it is then."""
        with self.locked("publish"):
            self._split_merged_files_of(unit)
        published = self.published(unit)
        assert published is not None
        return published

    def remove_staged(self, files: Iterable[Written]) -> None:
        """Remove staged files that will not be published.

        Files that the catalog may already list are kept, for example after a commit whose result is
        unknown.
        """
        self._storage.remove_staged(file.staged for file in files)

    def _split_merged_files_of(self, unit: Unit) -> None:
        for merged in self._catalog.merged_files_of(unit):
            self._split_merged_file(*merged)

    def locked(
        self, name: str, wait: Callable[[], None] | None = None
    ) -> AbstractContextManager[None]:
        """Return a context that holds the lock with a name; only one process at a time can hold it.

        wait() is called before the process waits for another one.
        """
        return self._database.locked(name, wait)

    def captures_locked(self, network: str) -> AbstractContextManager[None]:
        """Return a context in which no other process changes a network's captures."""
        return self.locked(f"content-{network}")

    def published(self, unit: Unit) -> PublishedUnit | None:
        """Return a unit as it is published now; None if it is not."""
        return self._catalog.published(unit)

    def published_units(self, kind: str, network: str | None = None) -> list[PublishedUnit]:
        """Return all published units of a kind, sorted by network and name."""
        return [
            published
            for group in self._catalog.unit_groups(network, kind)
            for published in group.units
        ]

    def days(self, kind: str, network: str | None = None) -> list[tuple[str, datetime.date]]:
        """Return the sorted (network, day) of all units of a kind that is published by day."""
        return [(p.unit.network, p.unit.day) for p in self.published_units(kind, network)]

    def files(
        self, table: Table, network: str | None = None, date: datetime.date | None = None
    ) -> list[Path]:
        """Return the sorted paths of a table's published Parquet files."""
        return [self.root / target for target in self._targets(table, network, date)]

    def content_hashes(
        self, table: Table, network: str | None = None, date: datetime.date | None = None
    ) -> list[str]:
        """Return the sorted hashes that a table's files had when their units were published.

        Merging files, or publishing the same bytes again, does not change these hashes.
        """
        return sorted(
            found
            for group in self._catalog.unit_groups(network)
            for found in group.hashes(table.name, _day(date))
        )

    def _targets(self, table: Table, network: str | None, date: datetime.date | None) -> list[str]:
        groups = self._catalog.unit_groups(network)
        return sorted(t for group in groups for t in group.targets(table.name, _day(date)))

    def files_by_date(self, table: Table, network: str) -> dict[datetime.date, list[Path]]:
        """Return a network's published files of a table by day, without those that have no day."""
        found: dict[datetime.date, list[Path]] = {}
        for target in self._targets(table, network, None):
            if day := Partition.of(target).date:
                found.setdefault(day, []).append(self.root / target)
        return found

    def unit_files(self, published: PublishedUnit, table: Table) -> list[Path]:
        """Return the Parquet files that hold a unit's rows of a table.

        A merged file also holds rows of other units of the same kind.
        """
        return [self.root / f for f in published.files if table_name(f) == table.name]

    def connect(
        self, query: str | None = None, as_of: datetime.datetime | None = None
    ) -> duckdb.DuckDBPyConnection:
        """Return a DuckDB connection with a view of each table, empty if nothing is published.

        As long as the connection is open, the views keep showing what is published now. query: the
        query that will be run. If given, only the tables that it may read get a view, because
        making a view of many files takes time; comments only if it may read them. as_of: show the
        tables as they were at this time.

        Raises UserError if files of that time are removed already.
        """
        version_lock = self.lock_version()
        tables = [t for t in TABLES.values() if query is None or may_read(query, t.name)]
        names = [table.name for table in tables]
        at_ns = self._history.checked_ns(as_of, names) if as_of else None
        targets = self._catalog.paths(names, at_ns)
        files = self._by_table(targets, self.root.resolve())
        connection = self.connect_to(
            {table: files[table] for table in tables},
            with_comments=query is not None and may_read_comments(query),
        )
        if version_lock:
            weakref.finalize(connection, version_lock.close)
        return connection

    def lock_version(self) -> IO[bytes] | None:
        """Lock what is published now, so that its files stay until the returned file is closed.

        See versions.lock.
        """
        return self._storage.lock_version()

    def connect_to(
        self, tables: Mapping[Table, list[Path]], with_comments: bool = False
    ) -> duckdb.DuckDBPyConnection:
        """Return a DuckDB connection with views of some files, and the statistics' functions."""
        import duckdb

        from spark_jobs.figures.sql_functions import register

        connection = duckdb.connect()
        connection.execute("set timezone = 'UTC'")
        register(connection)
        register_object_store(connection, self.root)
        create_views(connection, tables, with_comments)
        return connection

    @contextmanager
    def update_views_once(self) -> Iterator[None]:
        """Return a context in which jobs do not update the views; its end updates them once."""
        self._update_deferred = True
        try:
            yield
        except (UserError, OSError):
            self._update_deferred = False
            with suppress(UserError, OSError):
                self.update_views()
            raise
        self._update_deferred = False
        self.update_views()

    def update_views(self) -> None:
        """Update the Iceberg tables and the views in VIEWS to what is published.

        Then remove superseded files whose time is over (see the module). The file VIEWS is
        replaced, never changed, so that a reader that has it open does not block the job, and the
        job does not block a reader.
        """
        if self._update_deferred:
            return
        with report_full_disk(self.root, lambda: CHANGE_BYTES), self.locked("views"):
            now, tag = time.time_ns(), self._storage.views_tag()
            targets = self._published_paths()
            inputs = fingerprint(str(self.root.resolve()), targets, version(*VIEW_SOURCES))
            if not self.is_current(Unit.of_file(VIEWS), inputs):
                for all_bytes in (False, True):  # a damaged file may have its size
                    damaged = self.damaged(all_bytes)
                    intact = [target for target in targets if target not in damaged]
                    try:
                        self._write_views(self._by_table(intact, self.root.resolve()), now, tag)
                        break
                    except UserError:
                        if all_bytes:
                            raise
                self.record_made(Unit.of_file(VIEWS), inputs)
            before_ns = self._storage.oldest_open_ns(self._grace_begin_ns(now))
            self._iceberg_tables.follow(before_ns)
        with report_full_disk(self.root, lambda: CHANGE_BYTES), self.locked("views"):
            self._remove_superseded(before_ns)
            self._storage.remove_temporary_files(before_ns)

    def compact(self) -> tuple[int, int]:
        """Merge small files of captures (see compaction.py).

        Returns the number of small files that were read, and of files that replace them. Each
        merged file replaces its parts in one transaction.
        """
        parts_count = merged_count = 0
        for parts in small_files(self.published_units("capture")):
            intact = [part for part in parts if not self._damage(part.target, part.content, True)]
            with self.staging() as staging:
                for written, merged in merge(self.root, intact, staging):
                    if self._publish_merged(written, [part.target for part in merged]):
                        parts_count, merged_count = parts_count + len(merged), merged_count + 1
        return parts_count, merged_count

    def _publish_merged(self, written: Written, paths: list[str]) -> bool:
        """Publish a merged file; return False if one of its parts was replaced meanwhile."""
        with self.locked("publish"):
            self._put_in_place([(MERGED, _file(written))], [written])
            return self._catalog.merge(_file(written), paths)

    def _split_merged_file(self, path: str, content: Content) -> None:
        """Replace a merged file by files of its parts.

        If the merged file is missing or damaged, its parts cannot be written. They are listed in
        the catalog all the same, so that `damaged` reports them until each capture is read again.
        """
        with self.staging() as staging:
            intact = not self._damage(path, content, all_bytes=True)
            written = split(self.root, path, staging) if intact else {}
            parts = [
                MergedPart(
                    unit,
                    _file(written[unit.name]) if intact else missing_part(file, unit.name, staging),
                )
                for unit, file in self._catalog.files_in_merged(path)
            ]
            self._put_in_place(parts, written.values())
            self._catalog.split(path, parts)

    def maintain(self, remove_orphans: bool = False) -> list[FileCount]:
        """Merge small files, update all Iceberg tables, and remove superseded and orphan files.

        - Iceberg tables get the columns of the present schemas. Iceberg tables that show wrong
          files are rebuilt.
        - Orphan files are removed as orphans.py allows. remove_orphans: remove them also if they
          are recent, or very many.

        Returns counts of files. Also sets too_many_orphans.
        """
        merged, into = self.compact()
        before = self._all_files()
        with self.locked("views"):
            self._catalog.drop_iceberg_tables(self.iceberg_mismatches())
        self.update_views()
        with self.locked("views"):
            self._iceberg_tables.follow(0, TABLES)
        with self.locked("views"), self.locked("publish"):
            known, metadata = self._catalog.known_files(), self._iceberg_tables.metadata_files()
            found = self._remove_orphans(remove_orphans)
        published, remaining = set(self._published_paths()), self._all_files()
        return [
            FileCount("published", len(published), self._total_size(published & remaining)),
            FileCount("superseded, still kept", *self._count_and_size(known - published)),
            FileCount("Iceberg's metadata", *self._count_and_size(metadata)),
            FileCount(
                "orphans, kept for now",
                *self._count_and_size(remaining & (found.removable | found.recent)),
            ),
            FileCount("files of other names, kept", *self._count_and_size(found.foreign)),
            FileCount("removed", len(before - remaining), None),
            FileCount("small files merged", merged, None),
            FileCount("merged files written", into, None),
        ]

    def iceberg_mismatches(self) -> dict[str, str]:
        """Return a line for each Iceberg table that shows wrong files; see IcebergTables."""
        return self._iceberg_tables.mismatches()

    def _count_and_size(self, targets: Collection[str]) -> tuple[int, int]:
        return len(targets), self._total_size(targets)

    def _total_size(self, targets: Iterable[str]) -> int:
        return sum(self._storage.size(target) or 0 for target in targets)

    def _grace_begin_ns(self, now_ns: int) -> int:
        """Return a time (ns since 1970): files that were superseded before it may be removed."""
        return now_ns - self.grace_time // timedelta(microseconds=1) * 1000

    def _all_files(self) -> set[str]:
        """Return every file in the tables' folders, Iceberg metadata included."""
        return {path for table in TABLES for path in self._storage.files_below(table)}

    def read_iceberg_metadata(self) -> tuple[dict[str, set[str]], dict[Unit, dict[str, Any]]]:
        """Return what the newest Iceberg metadata say; see iceberg_tables.read_lost."""
        return read_lost(
            self.root, {table: [*self._storage.files_below(table)] for table in TABLES}
        )

    def restore(
        self, units: Mapping[Unit, tuple[dict[str, Any], list[str]]], staged: list[Written]
    ) -> None:
        """Publish these units, with their facts and files, in a catalog that has nothing.

        All are published in one transaction. staged: files that are not at their targets yet.
        Superseded files are not known, so the history horizon is set to the present time.
        """
        with self.locked("publish"):
            self._storage.move_to_targets(file.staged for file in staged)
            changes = [
                CatalogChange(
                    unit, facts, [File(t, *content_and_rows(self.root / t)) for t in files]
                )
                for unit, (facts, files) in units.items()
            ]
            horizon = CatalogChange(HORIZON, HistoryHorizon(until_ns=time.time_ns()), [])
            self._catalog.restore([*changes, horizon])

    def _write_views(
        self, tables: Mapping[Table, list[Path]], since_ns: int, tag: str | None
    ) -> None:
        with tempfile.TemporaryDirectory() as folder:
            new = Path(folder) / VIEWS
            write_views(new, tables)
            self._storage.replace_views(new, since_ns, tag)

    def cached_result(self, name: str, inputs: str, compute: Callable[[], Any]) -> Any:
        """Return the result of compute(), which runs only if the inputs have changed.

        The catalog keeps the result, which must be JSON, under the name.
        """
        published = self.published(unit := Unit("made", "all", name))
        if published and (made := MadeFacts.of(published)).inputs == inputs:
            return made.answer
        self.record_made(unit, inputs, compute())
        return self.cached_result(name, inputs, compute)

    def record_made(self, unit: Unit, inputs: str, answer: Any = None) -> None:
        """Record the inputs from which a file beside the tables, or an answer, was made."""
        self.publish(unit, [], MadeFacts(inputs=inputs, answer=answer))

    def files_by_table(self) -> dict[Table, list[Path]]:
        """Return the published Parquet files of every table."""
        return self._by_table(self._published_paths(), self.root)

    def _published_paths(self) -> list[str]:
        """Return the sorted targets of all published files."""
        return sorted(t for group in self._catalog.unit_groups() for t in group.by_file)

    def _by_table(self, targets: list[str], root: Path) -> dict[Table, list[Path]]:
        found: dict[str, list[Path]] = defaultdict(list)
        for target in targets:
            found[table_name(target)].append(root / target)
        return {table: found[name] for name, table in TABLES.items()}

    def purged_before(self, network: str, *tables: Table) -> datetime.date:
        """Return the first day that the purges of these tables kept; date.min if there were none.

        If it differs by table, the latest is returned. Tables computed from purged data are
        not computed again (see jobs/remove_data.py).
        """
        found = [self.published(purge_unit(network, table.name)) for table in tables]
        return max((PurgeFacts.of(one).before for one in found if one), default=datetime.date.min)

    def record_purge(self, network: str, table: Table, before: datetime.date) -> None:
        """Record that all days of a table earlier than `before` were purged."""
        if before > self.purged_before(network, table):
            self.publish(purge_unit(network, table.name), [], PurgeFacts(before=before))

    def erase_history(self, tables: Iterable[Table]) -> None:
        """Remove all superseded files of these tables, and what killed jobs left behind.

        Files are removed even if a reader has them open. Superseded rows of these tables can no
        longer be queried. All files that the catalog does not list as current are removed,
        whatever their age.
        """
        self.update_views()
        with self.staging():
            pass  # this removes the staged files of killed jobs
        names = [table.name for table in tables]
        with report_full_disk(self.root, lambda: CHANGE_BYTES), self.locked("views"):
            self._iceberg_tables.follow(END_OF_TIME_NS, names)
            self._remove_superseded(END_OF_TIME_NS, names)
            self._storage.remove_temporary_files(END_OF_TIME_NS)
            # Only the holder of the lock "views" writes metadata. What no table needs, perhaps cut
            # by a full disk, is of a job that failed.
            metadata = set(filter(orphans.METADATA_NAME.fullmatch, self._all_files()))
            left_over = metadata - self._iceberg_tables.metadata_files()
            remove_all(self.root / path for path in left_over)
            with self.locked("publish"):
                self._remove_orphans()

    def _remove_orphans(self, force: bool = False) -> Orphans:
        """Remove orphan files as orphans.py allows; return those that were found.

        force: the user asks to remove all of them. In an object store the recent ones stay even
        then, because a job may be writing them. Sets too_many_orphans.
        """
        known = self._catalog.known_files()
        unknown = self._all_files() - known - self._iceberg_tables.metadata_files()
        min_age = timedelta(0) if force and not in_object_store(self.root) else orphans.MIN_AGE
        before_ns = time.time_ns() - min_age // timedelta(microseconds=1) * 1000
        old = self._storage.changed_before(unknown, before_ns)
        found = orphans.classify_orphans(unknown, old, known)
        self.too_many_orphans = found.too_many and not force
        if not self.too_many_orphans:
            remove_all(self.root / path for path in found.removable)
        return found

    def _remove_superseded(self, before_ns: int, tables: Collection[str] = ()) -> None:
        with self.locked("publish"):
            removable = self._history.removable(before_ns, tables)
        self._history.remove(removable, before_ns, tables)

    def metadata_locations(self) -> dict[str, str]:
        """Return the location of each Iceberg table's metadata, by table."""
        return self._catalog.metadata_locations()

    def catalog_texts(self) -> Iterator[str]:
        """Yield every text value in the catalog's database."""
        return self._catalog.all_texts()

    def damaged(
        self, all_bytes: bool = False, network: str | None = None, date: datetime.date | None = None
    ) -> dict[str, str]:
        """Return, by target, a line for each published file that is missing or has changed.

        By default only the file's size is compared; all_bytes: also the hash of its bytes. network,
        date: only files of this network or day.
        """
        return {
            target: f"{self.root / target}: {damage} ({_names_of(units)})"
            for group in self._catalog.unit_groups(network)
            for target, units in group.by_file.items()
            if date is None or day_text(target) == date.isoformat()
            if (damage := self._damage(target, units[0].stored_in[target], all_bytes))
        }

    def is_current(self, unit: Unit, inputs: str) -> bool:
        """Return whether a unit was made of these inputs and is intact."""
        published = self.published(unit)
        return (
            published is not None
            and MadeFacts.of(published).inputs == inputs
            and (unit.kind != "file" or (self.root / unit.name).exists())
            and self.is_intact(published)
        )

    def is_intact(self, published: PublishedUnit) -> bool:
        """Return whether all files of a unit exist with the size that was published."""
        return not any(self._damage(*item, all_bytes=False) for item in published.stored_in.items())

    def _damage(self, target: str, content: Content, all_bytes: bool) -> str | None:
        """Return what is wrong with a published file, in words; None if nothing is."""
        size = self._storage.size(target)
        if size is None:
            return "is missing"
        if size != content.size:
            return f"has {size:,} bytes, {content.size:,} were published"
        if all_bytes and content_of(self.root / target) != content:
            return f"has other bytes than were published; {REMEDY}"
        return None


def _file(written: Written) -> File:
    return File(written.staged.target, written.content, written.rows)


def _names_of(units: list[PublishedUnit]) -> str:
    """Return the units that a file belongs to, in words."""
    (unit, *others) = (published.unit for published in units)
    more = f" and {len(others):,} more" if others else ""
    return f"{unit.kind} {unit.name}{more} of {unit.network}"


def _day(date: datetime.date | None) -> str | None:
    return date.isoformat() if date else None
