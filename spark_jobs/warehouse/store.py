"""Where tables lie, and how they change: whole or not at all. Nothing else knows a path.

Parquet files lie in TABLE/network=N/date=D/. What is published together (all packets of a
capture, all tables of a day) is a unit; a unit's commit file lists its Parquet files, and
replacing that one file is what publishes. Readers go by the commit files, so they see a unit
before a change or after it; or by the views in VIEWS, which every job brings up to date when it
ends. Then, or by the unit's next change, the files that a change superseded are removed, and what
an interrupted change left behind.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import shutil
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import pyarrow as pa
import xxhash

from schemas import TABLES, Table
from spark_jobs.errors import UserError
from spark_jobs.sources import version
from spark_jobs.warehouse.views import create_views, may_ask

if TYPE_CHECKING:
    import duckdb
    import pyarrow.parquet as pq

COMMITS, LOCKS, STAGING, OWNER = "_commits", "locks", "_staging", "owner.lock"
VIEWS = "warehouse.duckdb"
ROOMS_OF_VIEWS = ("schemas", "spark_jobs/warehouse")
TICK_NS = 50_000_000
"""No file system's clock is coarser (Linux: 10 ms)."""
NO_DATE = "__HIVE_DEFAULT_PARTITION__"
LONGEST_NAME = 213
"""Of a file's name, whose 255 bytes must hold what is put around it, too."""


@dataclass(frozen=True)
class Unit:
    """What is published together: kind is network, capture, made (a file beside the tables, as the
    views), or what is published by day: day (the flows and the tables beside them), leases, marts,
    quality."""

    kind: str
    network: str
    name: str = "all"

    @classmethod
    def of_day(cls, kind: str, network: str, day: datetime.date) -> Unit:
        """A network's day."""
        return cls(kind, network, day.isoformat())

    @property
    def day(self) -> datetime.date:
        """The day of a unit of a day."""
        return datetime.date.fromisoformat(self.name)


@dataclass(frozen=True)
class Commit:
    """A unit as it was last published: its files (relative paths) and facts about their making."""

    unit: Unit
    files: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


class Staging:
    """Files of one change, written where no reader looks, each with its future partition."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.files: dict[str, Path] = {}

    def path(self, table: Table, network: str, date: datetime.date | None, stem: str) -> Path:
        """Where to write a Parquet file of a partition."""
        version = uuid.uuid4().hex[:8]
        parts = [table.name, f"network={network}"]
        if len(table.partitions) > 1:
            parts.append(f"date={date.isoformat() if date else NO_DATE}")
        target = "/".join([*parts, f"{_file_name(stem)}-{version}.parquet"])
        self.files[target] = self.folder / f"{len(self.files):05d}-{version}.parquet"
        return self.files[target]

    def writer(
        self, table: Table, network: str, date: datetime.date | None, stem: str
    ) -> pq.ParquetWriter:
        """A writer of tables with the schema `table.arrow_dictionary`."""
        from spark_jobs.warehouse.files import table_writer

        path = self.path(table, network, date, stem)
        return table_writer(table, path)

    def write(
        self, table: Table, network: str, date: datetime.date | None, stem: str, rows: pa.Table
    ) -> None:
        """Rows as one file of a partition; their columns must be the schema's."""
        from spark_jobs.warehouse.files import LARGEST_ROW_GROUP

        with self.writer(table, network, date, stem) as writer:
            writer.write_table(
                rows.select(table.arrow.names).cast(table.arrow_dictionary),
                row_group_size=LARGEST_ROW_GROUP,
            )


class _Folder:
    """The commits of a kind and network; changed: when the folder last was, if that tells."""

    def __init__(self, changed: int | None, commits: list[Commit]):
        self.changed, self.commits = changed, commits
        self.files: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        """By table and day."""
        for commit in commits:
            for target in commit.files:
                table, _, *rest = target.split("/")
                self.files[table][rest[0].removeprefix("date=")].append(target)


def _status(path: str) -> os.stat_result:
    """A Path takes ten times as long, and a run asks of every network and day."""
    return os.stat(path)  # noqa: PTH116


def _names(folder: str) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


class Warehouse:
    """All tables under one folder."""

    def __init__(self, root: Path):
        for part in root.resolve().parts:
            if part.startswith(("network=", "date=")):
                raise UserError(
                    f"{root}: {part} in it would be taken for a partition of the tables"
                )
        self.root = root
        self._commits: dict[str, tuple[tuple[int, int, int], Commit]] = {}
        self._known: dict[str, _Folder] = {}

    def __reduce__(self) -> tuple[type[Warehouse], tuple[Path]]:
        """To another process goes the place, not what is known of it."""
        return Warehouse, (self.root,)

    @contextmanager
    def staging(self) -> Iterator[Staging]:
        """A place to write a change's files; what is not published is removed, at once or, where
        the job was killed, by the next one."""
        folder = self.root / STAGING / uuid.uuid4().hex
        with self.locked(STAGING):
            folder.mkdir(parents=True)
            owner = (folder / OWNER).open("w")
            fcntl.flock(owner, fcntl.LOCK_EX)
            for other in folder.parent.iterdir():
                _remove_if_orphaned(other)
        with owner:
            try:
                yield Staging(folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def publish(self, unit: Unit, files: dict[str, Path], facts: dict[str, Any]) -> None:
        """Replace the unit by these staged files (see Staging.files), at one stroke.

        What they replace stays until update_views, for those who read by the views.
        """
        commit_file = self._commit_file(unit)
        commit_file.parent.mkdir(parents=True, exist_ok=True)
        with self._changing(unit):
            old = self.commit(unit)
            pending = commit_file.with_suffix(".pending")
            self._sweep(pending, old)
            old_files = old.files if old else ()
            if files or old_files:
                _write_durably(pending, json.dumps([*files, *old_files]))
            for target, staged in files.items():
                final = self.root / target
                final.parent.mkdir(parents=True, exist_ok=True)
                _sync(staged)
                staged.replace(final)
            new = Commit(unit, tuple(files), facts)
            _write_durably(commit_file, json.dumps(asdict(new), indent=1))

    def _changing(self, unit: Unit) -> AbstractContextManager[None]:
        return self.locked(f"{unit.kind}-{unit.network}-{_file_name(unit.name)}")

    def _sweep(self, pending: Path, current: Commit | None) -> None:
        """Remove the files of the last change, finished or not, that are not the unit's own."""
        for path in self._superseded(pending, current):
            path.unlink(missing_ok=True)
        pending.unlink(missing_ok=True)

    def _superseded(self, pending: Path, current: Commit | None) -> set[Path]:
        named = json.loads(pending.read_text()) if pending.exists() else []
        return {
            self.root / target for target in named if not current or target not in current.files
        }

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """One process at a time per name."""
        folder = self.root / COMMITS / LOCKS
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / _file_name(name)).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def commit(self, unit: Unit) -> Commit | None:
        """The unit as it stands, or None."""
        return self._read(str(self._commit_file(unit)))

    def _read(self, path: str) -> Commit | None:
        """A commit file, read once as long as it is the same one."""
        try:
            status = _status(path)
        except FileNotFoundError:
            return None
        version = status.st_ino, status.st_mtime_ns, status.st_size
        known = self._commits.get(path)
        if known and known[0] == version:
            return known[1]
        raw = json.loads(Path(path).read_text())
        commit = Commit(Unit(**raw["unit"]), tuple(raw["files"]), raw["facts"])
        self._commits[path] = version, commit
        return commit

    def commits(self, kind: str, network: str | None = None) -> list[Commit]:
        """All units of a kind, by network and name."""
        return [c for folder in self._folders(network, kind) for c in folder.commits]

    def _folders(self, network: str | None = None, kind: str | None = None) -> Iterator[_Folder]:
        """Each kind's commits of each network, as they are now."""
        root = str(self.root / COMMITS)
        for of_kind in [kind] if kind else _names(root):
            for name in [network] if network else _names(f"{root}/{of_kind}"):
                folder = self._folder(f"{root}/{of_kind}/{name}")
                if folder and of_kind != LOCKS:
                    yield folder

    def _folder(self, path: str) -> _Folder | None:
        try:
            changed = _status(path).st_mtime_ns
        except (FileNotFoundError, NotADirectoryError):
            return None
        known = self._known.get(path)
        if known and known.changed == changed:
            return known
        # Of two changes within one tick of the clock the second is not told by the time.
        settled = time.time_ns() - changed > TICK_NS
        names = [n for n in _names(path) if n.endswith(".json") and not n.startswith(".")]
        found = [self._read(f"{path}/{name}") for name in names]
        self._known[path] = _Folder(changed if settled else None, [c for c in found if c])
        return self._known[path]

    def days(self, kind: str, network: str | None = None) -> list[tuple[str, datetime.date]]:
        """(network, day) of every unit of a kind that is published by day, sorted."""
        return [(c.unit.network, c.unit.day) for c in self.commits(kind, network)]

    def files(
        self, table: Table, network: str | None = None, date: datetime.date | None = None
    ) -> list[Path]:
        """The published Parquet files of a table, sorted by path."""
        return [self.root / target for target in self._targets(table, network, date)]

    def file_names(
        self, table: Table, network: str | None = None, date: datetime.date | None = None
    ) -> list[str]:
        """Their names, which no two files share: other ones where the rows have changed."""
        return [target.rpartition("/")[2] for target in self._targets(table, network, date)]

    def _targets(self, table: Table, network: str | None, date: datetime.date | None) -> list[str]:
        targets: list[str] = []
        for folder in self._folders(network):
            days = folder.files.get(table.name)
            if days:
                found = [days.get(date.isoformat(), [])] if date else days.values()
                targets += [target for of_day in found for target in of_day]
        return sorted(targets)

    def files_by_date(self, table: Table, network: str) -> dict[datetime.date, list[Path]]:
        """A network's published files of a table that has dates, by day."""
        found: dict[datetime.date, list[Path]] = {}
        for path in self.files(table, network):
            day = path.parent.name.removeprefix("date=")
            found.setdefault(datetime.date.fromisoformat(day), []).append(path)
        return found

    def unit_files(self, commit: Commit, table: Table) -> list[Path]:
        """A unit's Parquet files of one table."""
        return [self.root / file for file in commit.files if file.startswith(f"{table.name}/")]

    def _commit_file(self, unit: Unit) -> Path:
        return self.root / COMMITS / unit.kind / unit.network / f"{_file_name(unit.name)}.json"

    def connect(self, query: str | None = None) -> duckdb.DuckDBPyConnection:
        """SQL over every table: one view each, empty where nothing has been published. With the
        query that is to be asked, of the tables that it may be about only: a view of many files
        takes its time."""
        tables = [t for t in TABLES.values() if query is None or may_ask(query, t.name)]
        return self.connect_to({table: self.files(table) for table in tables})

    def connect_to(self, tables: Mapping[Table, list[Path]]) -> duckdb.DuckDBPyConnection:
        """SQL over some files of some tables."""
        import duckdb

        connection = duckdb.connect()
        connection.execute("set timezone = 'UTC'")
        create_views(connection, tables)
        return connection

    def update_views(self) -> None:
        """Make the views in VIEWS those of what is published; then remove what it superseded.

        VIEWS is replaced, never changed, so that nobody who reads it locks it or is locked out.
        """
        with self.locked("views"):
            targets = self._published()
            inputs = fingerprint(str(self.root.resolve()), targets, version(*ROOMS_OF_VIEWS))
            if not self.is_made(VIEWS, inputs):
                self._make_views(self._tables_of(targets))
                self.made(VIEWS, inputs)
            self._remove_superseded(targets)

    def _make_views(self, tables: Mapping[Table, list[Path]]) -> None:
        import duckdb

        fresh = self.root / f".{VIEWS}.{uuid.uuid4().hex}"
        try:
            with TemporaryDirectory() as folder:  # DuckDB takes some paths for more than a path
                made = Path(folder) / VIEWS
                with duckdb.connect(made) as connection:
                    create_views(connection, tables)
                shutil.copyfile(made, fresh)
            fresh.replace(self.root / VIEWS)
        finally:
            fresh.unlink(missing_ok=True)

    def remembered(self, name: str, inputs: str, answer: Callable[[], Any]) -> Any:
        """The answer (of what JSON can hold) to a question, asked once of the same inputs."""
        commit = self.commit(Unit("made", "all", name))
        if commit is None or commit.facts["inputs"] != inputs:
            self.made(name, inputs, answer=answer())
            return self.remembered(name, inputs, answer)
        return commit.facts["answer"]

    def is_made(self, name: str, inputs: str) -> bool:
        """Whether a file beside the tables is there and was made of these inputs."""
        commit = self.commit(Unit("made", "all", name))
        there = (self.root / name).exists()
        return there and commit is not None and commit.facts["inputs"] == inputs

    def made(self, name: str, inputs: str, **facts: Any) -> None:
        """Remember what a file beside the tables was made of, and facts of it."""
        self.publish(Unit("made", "all", name), {}, {"inputs": inputs, **facts})

    def tables(self) -> dict[Table, list[Path]]:
        """The published Parquet files of every table."""
        return self._tables_of(self._published())

    def _published(self) -> list[str]:
        """Every published file's path under the root, sorted."""
        return sorted(t for folder in self._folders() for c in folder.commits for t in c.files)

    def _tables_of(self, targets: list[str]) -> dict[Table, list[Path]]:
        found: dict[str, list[Path]] = defaultdict(list)
        for target in targets:
            found[target.partition("/")[0]].append(self.root / target)
        return {table: found[name] for name, table in TABLES.items()}

    def _remove_superseded(self, targets: list[str]) -> None:
        """What is superseded but in use was so by a job that is about to update the views."""
        found = list((self.root / COMMITS).glob("*/*/*.pending"))
        in_use = {self.root / target for target in targets} if found else set()
        for pending in found:
            kind, network = pending.parts[-3:-1]
            unit = Unit(kind, network, unquote(pending.stem))
            with self._changing(unit):
                current = self.commit(unit)
                if not in_use & self._superseded(pending, current):
                    self._sweep(pending, current)


def _file_name(name: str) -> str:
    """A name as a file's: percent-quoted; of a long one the begin, and a hash of all of it. What
    unquote makes of it has the same file name."""
    quoted, head = quote(name, safe=""), name
    if len(quoted) <= LONGEST_NAME:
        return quoted
    tail = f"~{xxhash.xxh3_128_hexdigest(name.encode())}"
    while len(quote(head, safe="")) > LONGEST_NAME - len(tail):
        head = head[:-1]
    return quote(head, safe="") + tail


def fingerprint(*facts: Any) -> str:
    """What something is made of, as a hash: another one where any of it has changed."""
    return xxhash.xxh3_64_hexdigest(repr(facts).encode())


def _remove_if_orphaned(folder: Path) -> None:
    """Remove a staging folder whose owner no longer lives."""
    try:
        with (folder / OWNER).open() as owner:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        return


def _sync(path: Path) -> None:
    with path.open("rb") as f:
        os.fsync(f.fileno())


def _write_durably(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with temporary.open("w") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    temporary.replace(path)
