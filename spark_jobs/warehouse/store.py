"""Where tables lie, and how they change: whole or not at all. Nothing else knows a path.

Parquet files lie in TABLE/network=N/date=D/. What is published together (all packets of a
capture, all tables of a day) is a unit; one transaction of the journal (see journal.py) publishes
it. The jobs read what the journal says; other readers the Iceberg tables in CATALOG or the views in
VIEWS, both of which every job brings up to date when it ends. Files that a change superseded stay
KEEP, with the snapshots of Iceberg that show them, and longer as long as somebody has views open
that list them; those of an interrupted change as long. The first job that ends later removes them.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import tempfile
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import xxhash

from schemas import NETWORKS, TABLES, Table
from spark_jobs.errors import UserError
from spark_jobs.places import in_object_store, place, remove_all
from spark_jobs.sources import version
from spark_jobs.warehouse import orphans
from spark_jobs.warehouse.commits import Commit, Content, Unit, content_of
from spark_jobs.warehouse.compaction import lost, merge, small_files, split
from spark_jobs.warehouse.disk import told_if_full
from spark_jobs.warehouse.files import Written, described, microseconds, moment
from spark_jobs.warehouse.identity import Claim
from spark_jobs.warehouse.journal import (
    CATALOG_VARIABLE,
    MERGED,
    REST_VARIABLE,
    REST_WAREHOUSE,
    Changes,
    File,
    Journal,
    Published,
    Shown,
    Stored,
    Update,
    database_of,
)
from spark_jobs.warehouse.orphans import Orphans
from spark_jobs.warehouse.staging import Staging
from spark_jobs.warehouse.storage import STAGING, VIEWS, storage_of
from spark_jobs.warehouse.views import create_views, may_ask, reach, write_views

if TYPE_CHECKING:
    import duckdb

KEEP = timedelta(days=5)
"""How long a superseded file stays at least: Iceberg's own max-snapshot-age."""
PAGE = 4096
"""The least that the catalog's database writes."""
EVER_NS = (1 << 63) - 1
"""Later than any time that is recorded, whatever the clock said when it was."""
FORGOTTEN = Unit("made", "all", "what is forgotten")
TOLD = Unit("made", "all", "REST catalog")
METADATA = "metadata"
"""The folder of a table's."""
FACTS_KEPT = Unit("made", "all", "facts kept")
KINDS_KEPT = ("network", "forgotten", "purged")
FACTS = "giscope."
"""What the names of table properties begin with that have facts of units of these kinds."""
ROOMS_OF_VIEWS = ("schemas", "spark_jobs/warehouse")


class Change(NamedTuple):
    """What a unit is to be: these facts, these staged files (see Staging.files), and of its present
    ones those with these paths, which stay (see Warehouse.unmerged)."""

    unit: Unit
    files: list[Written]
    facts: dict[str, Any]
    stay: Collection[str] = ()


class Held(NamedTuple):
    """How many files a warehouse has of a kind, and their bytes."""

    what: str
    files: int
    size: int | None


class Warehouse:
    """All tables under one folder; keep: see KEEP; catalog: the URI of its database, by default
    what CATALOG_VARIABLE names, or a file in it; catalog_is_lost: it is to be made again (see
    restore). Raises UserError if the catalog is another warehouse's (see identity.py)."""

    def __init__(
        self,
        root: Path,
        keep: timedelta = KEEP,
        catalog: str | None = None,
        catalog_is_lost: bool = False,
    ):
        for part in root.resolve().parts:
            if part.startswith(("network=", "date=")):
                raise UserError(
                    f"{root}: {part} in it would be taken for a partition of the tables"
                )
        self.root, self.keep, self._storage = root, keep, storage_of(root)
        uri = os.environ.get(CATALOG_VARIABLE) if catalog is None else catalog
        self._database = database_of(root, uri)
        self._claim = Claim(root, self._database, lambda: any(self._all_files()))
        self._journal = Journal(self._database, self._claim)
        self._later, self._catalog_is_lost = False, catalog_is_lost
        self.untold: UserError | None = None
        """Why a site's REST catalog could not be told of the last change."""
        self.too_many = False
        """Whether there were more orphans than are removed unasked."""
        if catalog_is_lost:
            self._claim.expect_loss()
        else:
            self._claim.check()

    def staging(self) -> AbstractContextManager[Staging]:
        """A place to write a change's files; what is not published is removed, at once or, where
        the job was killed, by the next one. What is published stays meanwhile, for the change to be
        made of.

        Raises UserError where the disk is full.
        """
        if not (self._claim.tied or self._catalog_is_lost):
            self._journal.begin_catalog()
        return self._storage.staging(self.locked(STAGING))

    def publish(
        self,
        unit: Unit,
        files: Iterable[Written],
        facts: dict[str, Any],
        stay: Collection[str] = (),
    ) -> None:
        """Let a unit be a Change of these; see publish_all."""
        self.publish_all([Change(unit, list(files), facts, stay)])

    def publish_all(self, changes: list[Change]) -> None:
        """Replace units by their staged files, at one stroke.

        What they replace stays, for those who read it; see update_views.
        """
        known = [Published(c.unit, c.facts, [*map(_file, c.files)], c.stay) for c in changes]
        size = sum(file.content.size for change in known for file in change.files)
        with told_if_full(self.root, lambda: size + PAGE), self.locked("publish"):
            for change in known:
                self._split_merged(change.unit)
            now = time.time_ns()
            self._storage.entrust(file.staged for change in changes for file in change.files)
            self._journal.begin(known, now)
            self._storage.settle(file.staged for change in changes for file in change.files)
            self._journal.publish(known, now)

    def unmerged(self, unit: Unit) -> Commit:
        """The unit as it stands, its rows in files of its own."""
        with self.locked("publish"):
            self._split_merged(unit)
        commit = self.commit(unit)
        assert commit is not None
        return commit

    def discard(self, files: Iterable[Written]) -> None:
        """Remove staged files that are not to be published; not those that the catalog may name."""
        self._storage.discard(file.staged for file in files)

    def _split_merged(self, unit: Unit) -> None:
        for merged in self._journal.merged_with(unit):
            self._split(*merged)

    def locked(
        self, name: str, wait: Callable[[], None] | None = None
    ) -> AbstractContextManager[None]:
        """One process at a time per name; wait() is called before another is waited for."""
        return self._database.locked(name, wait)

    def commit(self, unit: Unit) -> Commit | None:
        """The unit as it stands, or None."""
        return self._journal.commit(unit)

    def commits(self, kind: str, network: str | None = None) -> list[Commit]:
        """All units of a kind, by network and name."""
        return [c for group in self._journal.groups(network, kind) for c in group.commits]

    def days(self, kind: str, network: str | None = None) -> list[tuple[str, datetime.date]]:
        """(network, day) of every unit of a kind that is published by day, sorted."""
        return [(c.unit.network, c.unit.day) for c in self.commits(kind, network)]

    def files(
        self, table: Table, network: str | None = None, date: datetime.date | None = None
    ) -> list[Path]:
        """The published Parquet files of a table, sorted by path."""
        return [self.root / target for target in self._targets(table, network, date)]

    def contents(
        self, table: Table, network: str | None = None, date: datetime.date | None = None
    ) -> list[str]:
        """What tells a table's rows from others: of each file its bytes' hash, sorted: the same
        where the same was published again."""
        return sorted(
            found
            for group in self._journal.groups(network)
            for found in group.hashes(table.name, _day(date))
        )

    def _targets(self, table: Table, network: str | None, date: datetime.date | None) -> list[str]:
        groups = self._journal.groups(network)
        return sorted(t for group in groups for t in group.targets(table.name, _day(date)))

    def files_by_date(self, table: Table, network: str) -> dict[datetime.date, list[Path]]:
        """A network's published files of a table that has dates, by day."""
        found: dict[datetime.date, list[Path]] = {}
        for path in self.files(table, network):
            day = path.parent.name.removeprefix("date=")
            found.setdefault(datetime.date.fromisoformat(day), []).append(path)
        return found

    def unit_files(self, commit: Commit, table: Table) -> list[Path]:
        """The Parquet files that a unit's rows of one table are in: maybe with those of others of
        its kind."""
        return [self.root / file for file in commit.files if file.startswith(f"{table.name}/")]

    def connect(
        self, query: str | None = None, at: datetime.datetime | None = None
    ) -> duckdb.DuckDBPyConnection:
        """SQL over every table: one view each, empty where nothing has been published. With the
        query that is to be asked, of the tables that it may be about only: a view of many files
        takes its time. What it shows stays as it is as long as it is open. at: as the tables were
        then.

        Raises UserError where what was published then is not kept any more.
        """
        held = self.hold()
        tables = [t for t in TABLES.values() if query is None or may_ask(query, t.name)]
        names = [table.name for table in tables]
        targets = self._journal.paths(names, self._kept(at, names) if at else None)
        files = self._tables_of(targets, self.root.resolve())
        connection = self.connect_to({table: files[table] for table in tables})
        if held:
            weakref.finalize(connection, held.close)
        return connection

    def _kept(self, at: datetime.datetime, tables: Iterable[str]) -> int:
        """A time (ns since 1970) of which everything of these tables is there."""
        forgotten = self.commit(FORGOTTEN)
        facts: dict[str, Any] = forgotten.facts if forgotten else {"until_ns": 0}
        erased = facts.get("erased_ns", {})
        until_ns = max([facts["until_ns"], *(erased.get(table, 0) for table in tables)])
        ns = microseconds(at) * 1000
        if ns < until_ns:
            until = moment(until_ns // 1000)
            raise UserError(
                f"{self.root}: as it was at {at:%Y-%m-%d %H:%M:%S} UTC is not kept: what was "
                f"replaced before {until:%Y-%m-%d %H:%M:%S} UTC is removed"
            )
        return ns

    def hold(self) -> IO[bytes] | None:
        """Keep what is published now, though it be superseded meanwhile; see versions.hold."""
        return self._storage.hold()

    def connect_to(self, tables: Mapping[Table, list[Path]]) -> duckdb.DuckDBPyConnection:
        """SQL over some files of some tables."""
        import duckdb

        connection = duckdb.connect()
        connection.execute("set timezone = 'UTC'")
        reach(connection, self.root)
        create_views(connection, tables)
        return connection

    @contextmanager
    def one_update(self) -> Iterator[None]:
        """Several jobs that update the views once, at their end, or where they are broken off."""
        self._later = True
        try:
            yield
        except (UserError, OSError):
            self._later = False
            with suppress(UserError, OSError):
                self.update_views()
            raise
        self._later = False
        self.update_views()

    def update_views(self) -> None:
        """Make the Iceberg tables and the views in VIEWS those of what is published; then remove
        what was superseded, as far as nobody can be reading it.

        VIEWS is replaced, never changed, so that nobody who reads it locks it or is locked out.
        """
        if self._later:
            return
        with told_if_full(self.root, lambda: PAGE), self.locked("views"):
            now, seen = time.time_ns(), self._storage.seen_views()
            targets = self._published()
            inputs = fingerprint(str(self.root.resolve()), targets, version(*ROOMS_OF_VIEWS))
            if not self.is_made(VIEWS, inputs):
                damaged = self.damaged()
                sound = [target for target in targets if target not in damaged]
                self._make_views(self._tables_of(sound, self.root.resolve()), now, seen)
                self.made(VIEWS, inputs)
            before_ns = self._storage.oldest_open(self._before(now))
            self._show(before_ns)
        self._tell_rest_catalog()
        with told_if_full(self.root, lambda: PAGE), self.locked("views"):
            self._remove_superseded(before_ns)
            self._storage.remove_begun(before_ns)

    def compact(self) -> tuple[int, int]:
        """Merge small files of captures (see compaction.py); returns how many files into how many.
        What they had is what the merged ones have, all at one stroke a file."""
        from_files = into = 0
        for parts in small_files(self.commits("capture")):
            sound = [part for part in parts if not self._wrong(part.target, part.content, True)]
            with self.staging() as staging:
                for written, merged in merge(self.root, sound, staging):
                    if self._merge(written, [part.target for part in merged]):
                        from_files, into = from_files + len(merged), into + 1
        return from_files, into

    def _merge(self, written: Written, paths: list[str]) -> bool:
        """Publish a merged file; False where what it was made of was replaced meanwhile."""
        merged = _file(written)
        with self.locked("publish"):
            now = time.time_ns()
            self._storage.entrust([written.staged])
            self._journal.begin([Published(Unit(MERGED, "all"), {}, [merged])], now)
            self._storage.settle([written.staged])
            return self._journal.merge(merged, paths, now)

    def _split(self, path: str, content: Content) -> None:
        """Let a merged file's rows be in others again. Where it is missing or broken so are these,
        as damaged tells, until each capture is read again."""
        with self.staging() as staging:
            sound = not self._wrong(path, content, whole=True)
            written = split(self.root, path, staging) if sound else {}
            parts = [
                Stored(unit, _file(written[unit.name]) if sound else lost(file, unit.name, staging))
                for unit, file in self._journal.stored_in(path)
            ]
            now = time.time_ns()
            self._storage.entrust(file.staged for file in written.values())
            self._journal.begin_split(parts, now)
            self._storage.settle(file.staged for file in written.values())
            self._journal.split(path, parts, now)

    def maintain(self, remove_orphans: bool = False) -> list[Held]:
        """Merge small files of captures; bring the Iceberg tables up to date, also with the
        schemas, and make those anew that show other files than they should; forget what was
        replaced, and remove orphans (see orphans.py), also recent ones and many if remove_orphans;
        returns what became of files, and what is there then. See untold and too_many, too."""

        merged, into = self.compact()
        before = self._all_files()
        with self.locked("views"):
            self._journal.hide(self.holes())
        self.update_views()
        with self.locked("views"):
            self._show(0, TABLES)
        self._tell_rest_catalog(again=True)
        with self.locked("views"), self.locked("publish"):
            known, metadata = self._journal.known_files(), self._metadata()
            found = self._remove_orphans(remove_orphans)
        published, left = set(self._published()), self._all_files()
        return [
            Held("published", len(published), self._bytes(published & left)),
            Held("superseded, and still kept", *self._held(known - published)),
            Held("Iceberg's metadata", *self._held(metadata)),
            Held("orphans, left for now", *self._held(left & (found.removable | found.recent))),
            Held("of other names, left", *self._held(found.foreign)),
            Held("removed", len(before - left), None),
            Held("small ones merged", merged, None),
            Held("into", into, None),
        ]

    def _metadata(self) -> set[str]:
        """The files of the Iceberg tables' metadata, and of a REST catalog's: their paths under the
        root."""
        from spark_jobs.warehouse.iceberg import files_of

        begin = len(str(self.root.resolve())) + 1
        places = self._journal.snapshots().values()
        told = self.commit(TOLD)
        of_server = told.facts["files"] if told else []
        return {file[begin:] for place in places for file in files_of(place)}.union(of_server)

    def holes(self) -> dict[str, str]:
        """The Iceberg tables that show other files than the journal says, and a line about each."""
        from spark_jobs.warehouse.iceberg import shown_files

        found = {}
        for table, location in self._journal.snapshots().items():
            if not location.startswith(f"{self.root.resolve()}/"):
                continue  # the warehouse was moved: the next job makes it anew
            shown, listed = shown_files(location), self._journal.listed(table)
            if shown != listed:
                found[table] = (
                    f"{self.root}: the Iceberg table {table} lacks {len(listed - shown):,} files "
                    f"and has {len(shown - listed):,} others: giscope maintain makes it anew"
                )
        return found

    def _held(self, targets: Collection[str]) -> tuple[int, int]:
        return len(targets), self._bytes(targets)

    def _bytes(self, targets: Iterable[str]) -> int:
        return sum(self._storage.size(target) or 0 for target in targets)

    def _before(self, now_ns: int) -> int:
        """What was replaced before goes."""
        return now_ns - self.keep // timedelta(microseconds=1) * 1000

    def _all_files(self) -> set[str]:
        """Every file of a table, and of its Iceberg metadata."""
        return {path for table in TABLES for path in self._storage.files_below(table)}

    def _show(self, before_ns: int, also: Iterable[str] = ()) -> None:
        """Let the Iceberg tables show what is published, and be what the schemas say (of others
        that are asked for, too). Snapshots that were replaced before are forgotten."""
        snapshots = self._journal.snapshots()
        root = str(self.root.resolve())
        if any(not location.startswith(f"{root}/") for location in snapshots.values()):
            self._journal.hide_all()  # it was moved
            snapshots = {}
        new = [name for name in TABLES if name not in snapshots]
        facts = self._facts_to_keep()
        inputs = fingerprint(facts)
        told = self.is_current(FACTS_KEPT, inputs)
        changes = {name: Changes() for name in (*also, *new)}
        if not told:
            changes[NETWORKS.name] = Changes()
        changes |= self._journal.changes()
        self._update(
            [
                Update(
                    name,
                    root,
                    snapshots.get(name),
                    change,
                    before_ns,
                    properties=facts if name == NETWORKS.name else {},
                )
                for name, change in changes.items()
            ]
        )
        if not told:
            self.publish(FACTS_KEPT, [], {"inputs": inputs})

    def _facts_to_keep(self) -> dict[str, str]:
        """Facts that no file tells, as properties of the Iceberg table of the networks: a catalog
        that is lost is made again with them."""
        return {
            f"{FACTS}{commit.unit.kind}.{commit.unit.network}.{commit.unit.name}": json.dumps(
                commit.facts
            )
            for kind in KINDS_KEPT
            for commit in self.commits(kind)
        }

    def published_files(self) -> tuple[dict[str, set[str]], dict[Unit, dict[str, Any]]]:
        """By table, the files that the newest Iceberg metadata show, of which the catalog may know
        nothing; and the facts that they tell of units (see _facts_to_keep)."""
        from spark_jobs.warehouse.iceberg import newest

        shown, facts = {}, {}
        for table in TABLES:
            names = [p for p in self._storage.files_below(table) if f"/{METADATA}/" in p]
            found = newest(str(self.root.resolve()), names)
            if found is None:
                continue
            shown[table], properties = found
            for name, text in properties.items():
                if name.startswith(FACTS):
                    kind, _, rest = name.removeprefix(FACTS).partition(".")
                    network, _, of = rest.rpartition(".")
                    facts[Unit(kind, network, of)] = json.loads(text)
        return shown, facts

    def restore(
        self, units: Mapping[Unit, tuple[dict[str, Any], list[str]]], staged: list[Written]
    ) -> None:
        """Let a catalog that has nothing have these units, with these facts and files, at one
        stroke; staged: those of the files that are not in their places yet. What was before is not
        known."""
        with self.locked("publish"):
            self._storage.settle(file.staged for file in staged)
            known = [
                Published(unit, facts, [File(t, *described(self.root / t)) for t in files])
                for unit, (facts, files) in units.items()
            ]
            forgotten = Published(FORGOTTEN, {"until_ns": time.time_ns()}, [])
            self._journal.restore([*known, forgotten])

    def _update(self, updates: list[Update]) -> None:
        """Bring Iceberg tables up to date, all at one stroke."""
        if not updates:
            return
        from spark_jobs.warehouse.iceberg import update

        made = [(wanted, update(wanted)) for wanted in updates]
        self._journal.show({w.table: Shown(w.location, to.location, w.changes) for w, to in made})
        for _, updated in made:
            remove_all(map(place, updated.unneeded))

    def _tell_rest_catalog(self, again: bool = False) -> None:
        """Let a site's REST catalog, if there is one, have the Iceberg tables as they are; again:
        though it was told. What goes wrong is `untold`: no job of ours needs it."""
        uri, self.untold = os.environ.get(REST_VARIABLE), None
        if not uri:
            return
        with self.locked("REST catalog"):
            snapshots = self._journal.snapshots()
            inputs = fingerprint(uri, os.environ.get(REST_WAREHOUSE), sorted(snapshots.items()))
            told = self.commit(TOLD)
            if told and told.facts["inputs"] == inputs and not again:
                return
            from spark_jobs.warehouse.rest_catalog import follow

            try:
                files = follow(uri, snapshots)
            except UserError as error:
                self.untold = error
                print(f"giscope: {error}; the next job tells it again", file=sys.stderr)
                return
            root = f"{self.root.resolve()}/"
            ours = sorted(file.removeprefix(root) for file in files)
            self.publish(TOLD, [], {"inputs": inputs, "files": ours})

    def _make_views(
        self, tables: Mapping[Table, list[Path]], since_ns: int, seen: str | None
    ) -> None:
        with tempfile.TemporaryDirectory() as elsewhere:
            made = Path(elsewhere) / VIEWS
            write_views(made, tables)
            self._storage.replace_views(made, since_ns, seen)

    def remembered(self, name: str, inputs: str, answer: Callable[[], Any]) -> Any:
        """The answer (of what JSON can hold) to a question, asked once of the same inputs."""
        commit = self.commit(Unit("made", "all", name))
        if commit is None or commit.facts["inputs"] != inputs:
            self.made(name, inputs, answer=answer())
            return self.remembered(name, inputs, answer)
        return commit.facts["answer"]

    def is_made(self, name: str, inputs: str) -> bool:
        """Whether a file beside the tables is there and was made of these inputs."""
        return (self.root / name).exists() and self.is_current(Unit("made", "all", name), inputs)

    def made(self, name: str, inputs: str, **facts: Any) -> None:
        """Remember what a file beside the tables was made of, and facts of it."""
        self.publish(Unit("made", "all", name), [], {"inputs": inputs, **facts})

    def tables(self) -> dict[Table, list[Path]]:
        """The published Parquet files of every table."""
        return self._tables_of(self._published(), self.root)

    def _published(self) -> list[str]:
        """Every published file's path under the root, sorted."""
        return sorted(t for group in self._journal.groups() for t in group.units)

    def _tables_of(self, targets: list[str], root: Path) -> dict[Table, list[Path]]:
        found: dict[str, list[Path]] = defaultdict(list)
        for target in targets:
            found[target.partition("/")[0]].append(root / target)
        return {table: found[name] for name, table in TABLES.items()}

    def purged(self, network: str, *tables: Table) -> datetime.date:
        """Before which day something was removed from these tables, so that what was made of it
        stays as it is (see jobs/remove_data.py); date.min: nothing was."""
        found = [self.commit(_purged(network, table)) for table in tables]
        days = [datetime.date.fromisoformat(commit.facts["before"]) for commit in found if commit]
        return max(days, default=datetime.date.min)

    def purge(self, network: str, table: Table, before: datetime.date) -> None:
        """Remember that a table's days before one were removed."""
        if before > self.purged(network, table):
            self.publish(_purged(network, table), [], {"before": before.isoformat()})

    def erase(self, tables: Iterable[Table]) -> None:
        """Remove what was replaced of these tables, whoever reads it or might look back to it, and
        what jobs that were killed have left. The journal says what was replaced, and no clock."""
        self.update_views()
        with self.staging():
            pass  # what killed jobs staged is gone
        names = [table.name for table in tables]
        with told_if_full(self.root, lambda: PAGE), self.locked("views"):
            self._show(EVER_NS, names)
            self._remove_superseded(EVER_NS, names)
            self._storage.remove_begun(EVER_NS)
            with self.locked("publish"):
                self._remove_orphans()
        self._tell_rest_catalog()

    def _remove_orphans(self, wished: bool = False) -> Orphans:
        """Remove orphans, as far as orphans.py allows it; wished: the user asks for all of them. Of
        a bucket the recent ones stay: a job may be at work on them. So does metadata, if that of a
        REST catalog is not known. Returns what there was; see too_many."""
        known = self._journal.known_files()
        unknown = self._all_files() - known - self._metadata()
        if self.untold:
            unknown = {path for path in unknown if f"/{METADATA}/" not in path}
        stay = timedelta(0) if wished and not in_object_store(self.root) else orphans.STAY
        before_ns = time.time_ns() - stay // timedelta(microseconds=1) * 1000
        old = self._storage.changed_before(unknown, before_ns)
        found = orphans.orphans_of(unknown, old, known)
        self.too_many = found.too_many and not wished
        if not self.too_many:
            remove_all(self.root / path for path in found.removable)
        return found

    def _remove_superseded(self, before_ns: int, tables: Collection[str] = ()) -> None:
        """Remove what was superseded before, first from the history of the Iceberg tables; tables:
        of these alone."""
        with self.locked("publish"):
            gone = self._journal.gone(before_ns)
        if tables:
            gone = {path: ns for path, ns in gone.items() if path.partition("/")[0] in tables}
        if not gone:
            return
        root, snapshots = str(self.root.resolve()), self._journal.snapshots()
        last: dict[str, int] = {}
        for path, since_ns in gone.items():
            table = path.partition("/")[0]
            last[table] = max(since_ns, last.get(table, 0))
        self._update(
            [
                Update(table, root, snapshots[table], Changes(), before_ns, since_ns)
                for table, since_ns in last.items()
            ]
        )
        until_ns = max(min(before_ns, time.time_ns()), *last.values())
        self._look_back_no_further(until_ns, tables)
        remove_all(self.root / path for path in gone)
        self._journal.forget(gone)

    def _look_back_no_further(self, before_ns: int, tables: Collection[str]) -> None:
        """Remember that what was replaced before is gone, of these tables or of all."""
        forgotten = self.commit(FORGOTTEN)
        facts: dict[str, Any] = forgotten.facts if forgotten else {"until_ns": 0}
        erased = facts.get("erased_ns", {}) | dict.fromkeys(tables, before_ns)
        until_ns = facts["until_ns"] if tables else before_ns
        self.publish(FORGOTTEN, [], {"until_ns": until_ns, "erased_ns": erased})

    def snapshots(self) -> dict[str, str]:
        """Where the metadata of each Iceberg table are, by table."""
        return self._journal.snapshots()

    def catalog_texts(self) -> Iterator[str]:
        """All texts that the catalog's database has."""
        return self._journal.texts()

    def damaged(
        self, whole: bool = False, network: str | None = None, date: datetime.date | None = None
    ) -> dict[str, str]:
        """Published files (paths under the root) that are missing, or not what was published (by
        their size; whole: by all their bytes), and a line about each. network, date: only their
        files."""
        of_date = f"/date={date}/" if date else ""
        return {
            target: f"{self.root / target}: {wrong} ({_of(commits)})"
            for group in self._journal.groups(network)
            for target, commits in group.units.items()
            if of_date in target
            and (wrong := self._wrong(target, commits[0].stored[target], whole))
        }

    def is_current(self, unit: Unit, inputs: str) -> bool:
        """Whether a unit was made of these inputs, and is there."""
        commit = self.commit(unit)
        return commit is not None and commit.facts["inputs"] == inputs and self.is_whole(commit)

    def is_whole(self, commit: Commit) -> bool:
        """Whether its files are there, each as large as it was published."""
        return not any(self._wrong(*item, whole=False) for item in commit.stored.items())

    def _wrong(self, target: str, content: Content, whole: bool) -> str | None:
        size = self._storage.size(target)
        if size is None:
            return "is missing"
        if size != content.size:
            return f"has {size:,} bytes, {content.size:,} were published"
        if whole and content_of(self.root / target) != content:
            return "has other bytes than were published; remove it, and it is made again"
        return None


def fingerprint(*facts: Any) -> str:
    """What something is made of, as a hash: another one where any of it has changed."""
    return xxhash.xxh3_64_hexdigest(repr(facts).encode())


def _purged(network: str, table: Table) -> Unit:
    return Unit("purged", network, table.name)


def _file(written: Written) -> File:
    return File(written.staged.target, written.content, written.rows)


def _of(commits: list[Commit]) -> str:
    """Whose a file is."""
    (unit, *others) = (commit.unit for commit in commits)
    more = f" and {len(others):,} more" if others else ""
    return f"{unit.kind} {unit.name}{more} of {unit.network}"


def _day(date: datetime.date | None) -> str | None:
    return date.isoformat() if date else None
