"""Where tables lie, and how they change: whole or not at all. Nothing else knows a path.

Parquet files lie in TABLE/network=N/date=D/. What is published together (all packets of a
capture, all tables of a day) is a unit; a unit's commit file lists its Parquet files, and
replacing that one file is what publishes. Readers go by the commit files, so they see a unit
before a change or after it; or by the views in VIEWS, which every job brings up to date when it
ends. Files that a change superseded, and those of an interrupted one, are removed by the first job
that ends GRACE_S later, when nobody has views open that list them.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import shutil
import tempfile
import time
import uuid
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote

import xxhash

from schemas import TABLES, Table
from spark_jobs.errors import UserError
from spark_jobs.sources import version
from spark_jobs.warehouse import versions
from spark_jobs.warehouse.commits import Commit, Content, Unit, content_of
from spark_jobs.warehouse.disk import (
    bytes_in,
    file_name,
    replacing,
    sync,
    told_if_full,
    write_durably,
)
from spark_jobs.warehouse.staging import Staging, claim
from spark_jobs.warehouse.views import create_views, may_ask, write_views

if TYPE_CHECKING:
    import duckdb

COMMITS, LOCKS, STAGING, VERSIONS = "_commits", "locks", "_staging", "_views"
VIEWS = "warehouse.duckdb"
GRACE_S = 600
"""How long a superseded file stays at least: for readers that no lock tells of (another host, a
query that has read the commit files and not yet the data)."""
ROOMS_OF_VIEWS = ("schemas", "spark_jobs/warehouse")
TICK_NS = 50_000_000
"""No file system's clock is coarser (Linux: 10 ms)."""


class _Folder:
    """The commits of a kind and network; changed: when the folder last was, if that tells."""

    def __init__(self, changed: int | None, commits: list[Commit]):
        self.changed, self.commits = changed, commits
        self.files: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        """By table and day."""
        self.hashes: dict[str, str] = {}
        """By file, where known."""
        for commit in commits:
            for target in commit.files:
                table, _, *rest = target.split("/")
                self.files[table][rest[0].removeprefix("date=")].append(target)
            self.hashes |= {name: content.xxh3 for name, content in commit.contents.items()}

    def targets(self, table: Table, date: datetime.date | None) -> Iterable[str]:
        """The files of a table, of one day or all."""
        days = self.files.get(table.name, {})
        return days.get(date.isoformat(), []) if date else chain.from_iterable(days.values())


def _status(path: str) -> os.stat_result:
    """A Path takes ten times as long, and a run asks of every network and day."""
    return os.stat(path)  # noqa: PTH116


def _names(folder: str) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


class Warehouse:
    """All tables under one folder; grace_s: see GRACE_S."""

    def __init__(self, root: Path, grace_s: float = GRACE_S):
        for part in root.resolve().parts:
            if part.startswith(("network=", "date=")):
                raise UserError(
                    f"{root}: {part} in it would be taken for a partition of the tables"
                )
        self.root, self.grace_s = root, grace_s
        self._commits: dict[str, tuple[tuple[int, int, int], Commit]] = {}
        self._known: dict[str, _Folder] = {}

    def __reduce__(self) -> tuple[type[Warehouse], tuple[Path, float]]:
        """To another process goes the place, not what is known of it."""
        return Warehouse, (self.root, self.grace_s)

    @contextmanager
    def staging(self) -> Iterator[Staging]:
        """A place to write a change's files; what is not published is removed, at once or, where
        the job was killed, by the next one. What is published stays meanwhile, for the change to be
        made of.

        Raises UserError where the disk is full.
        """
        folder = self.root / STAGING / uuid.uuid4().hex
        written = 0
        with self.hold() or nullcontext(), told_if_full(self.root, lambda: written):
            with self.locked(STAGING):
                owner = claim(folder)
            with owner:
                try:
                    yield Staging(folder)
                finally:
                    written = bytes_in(folder)
                    shutil.rmtree(folder, ignore_errors=True)

    def publish(self, unit: Unit, files: dict[str, Path], facts: dict[str, Any]) -> None:
        """Replace the unit by these staged files (see Staging.files), at one stroke.

        What they replace stays, for those who read it; see update_views.
        """
        commit_file = self._commit_file(unit)
        commit_file.parent.mkdir(parents=True, exist_ok=True)
        with self._changing(unit):
            old = self.commit(unit)
            pending = commit_file.with_suffix(".pending")
            superseded = _superseded(pending, old)
            now = time.time_ns()
            superseded |= dict.fromkeys((*files, *(old.files if old else ())), now)
            _write_pending(pending, superseded)
            contents = {}
            for target, staged in files.items():
                final = self.root / target
                final.parent.mkdir(parents=True, exist_ok=True)
                contents[target] = content_of(staged)
                sync(staged)
                staged.replace(final)
            new = Commit(unit, tuple(files), facts, contents)
            write_durably(commit_file, new.to_json())

    def _changing(self, unit: Unit) -> AbstractContextManager[None]:
        return self.locked(f"{unit.kind}-{unit.network}-{file_name(unit.name)}")

    @contextmanager
    def locked(self, name: str, wait: Callable[[], None] | None = None) -> Iterator[None]:
        """One process at a time per name; wait() is called before another is waited for."""
        folder = self.root / COMMITS / LOCKS
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / file_name(name)).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if wait:
                    wait()
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
        commit = Commit.from_json(Path(path).read_text())
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

    def contents(
        self, table: Table, network: str | None = None, date: datetime.date | None = None
    ) -> list[str]:
        """What tells a table's rows from others: of each file its bytes' hash, sorted (its name, of
        early versions): the same where the same was published again."""
        return sorted(
            folder.hashes.get(target, target.rpartition("/")[2])
            for folder in self._folders(network)
            for target in folder.targets(table, date)
        )

    def _targets(self, table: Table, network: str | None, date: datetime.date | None) -> list[str]:
        folders = self._folders(network)
        return sorted(target for folder in folders for target in folder.targets(table, date))

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
        return self.root / COMMITS / unit.kind / unit.network / f"{file_name(unit.name)}.json"

    def connect(self, query: str | None = None) -> duckdb.DuckDBPyConnection:
        """SQL over every table: one view each, empty where nothing has been published. With the
        query that is to be asked, of the tables that it may be about only: a view of many files
        takes its time. What it shows stays as it is as long as it is open."""
        held = self.hold()
        tables = [t for t in TABLES.values() if query is None or may_ask(query, t.name)]
        connection = self.connect_to({table: self.files(table) for table in tables})
        if held:
            weakref.finalize(connection, held.close)
        return connection

    def hold(self) -> IO[bytes] | None:
        """Keep what is published now, though it be superseded meanwhile; see versions.hold."""
        return versions.hold(self.root / VIEWS)

    def connect_to(self, tables: Mapping[Table, list[Path]]) -> duckdb.DuckDBPyConnection:
        """SQL over some files of some tables."""
        import duckdb

        connection = duckdb.connect()
        connection.execute("set timezone = 'UTC'")
        create_views(connection, tables)
        return connection

    def update_views(self) -> None:
        """Make the views in VIEWS those of what is published; then remove what was superseded, as
        far as nobody can be reading it.

        VIEWS is replaced, never changed, so that nobody who reads it locks it or is locked out.
        """
        with self.locked("views"):
            now = time.time_ns()
            targets = self._published()
            inputs = fingerprint(str(self.root.resolve()), targets, version(*ROOMS_OF_VIEWS))
            if not self.is_made(VIEWS, inputs):
                damaged = self.damaged()
                sound = [target for target in targets if target not in damaged]
                self._make_views(self._tables_of(sound), now)
                self.made(VIEWS, inputs)
            before = now - int(self.grace_s * 1e9)
            self._remove_superseded(versions.oldest_open(self.root / VERSIONS, before))
            self._remove_begun(before)

    def _make_views(self, tables: Mapping[Table, list[Path]], since_ns: int) -> None:
        views = self.root / VIEWS
        with tempfile.TemporaryDirectory() as elsewhere:
            made = Path(elsewhere) / VIEWS
            write_views(made, tables)
            with replacing(views, made.stat().st_size) as fresh:
                shutil.copyfile(made, fresh)
                versions.keep(fresh, self.root / VERSIONS, since_ns)

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

    def _remove_superseded(self, before_ns: int) -> None:
        """Remove what was superseded before."""
        for pending in (self.root / COMMITS).glob("*/*/*.pending"):
            kind, network = pending.parts[-3:-1]
            unit = Unit(kind, network, unquote(pending.stem))
            with self._changing(unit):
                superseded = _superseded(pending, self.commit(unit))
                done = {target for target, since in superseded.items() if since < before_ns}
                for target in done:
                    (self.root / target).unlink(missing_ok=True)
                if done or not superseded:
                    _write_pending(pending, {t: superseded[t] for t in superseded if t not in done})

    def _remove_begun(self, before_ns: int) -> None:
        """Remove what jobs began to write before, to replace a file, and were killed; see
        replacing."""
        for place in (self.root, *(self.root / COMMITS).glob("*/*")):
            for begun in place.glob(".*"):
                if begun.is_file() and begun.stat().st_mtime_ns < before_ns:
                    begun.unlink(missing_ok=True)

    def damaged(
        self, whole: bool = False, network: str | None = None, date: datetime.date | None = None
    ) -> dict[str, str]:
        """Published files (paths under the root) that are missing, or not what was published (by
        their size; whole: by all their bytes), and a line about each. network, date: only their
        files."""
        of_date = f"/date={date}/" if date else ""
        return {
            target: f"{self.root / target}: {wrong} ({commit.unit.kind} {commit.unit.name} of "
            f"{commit.unit.network})"
            for folder in self._folders(network)
            for commit in folder.commits
            for target, content in commit.contents.items()
            if of_date in target and (wrong := self._wrong(target, content, whole))
        }

    def is_current(self, unit: Unit, inputs: str) -> bool:
        """Whether a unit was made of these inputs, and is there."""
        commit = self.commit(unit)
        return commit is not None and commit.facts["inputs"] == inputs and self.is_whole(commit)

    def is_whole(self, commit: Commit) -> bool:
        """Whether its files are there, each as large as it was published."""
        return not any(self._wrong(*item, whole=False) for item in commit.contents.items())

    def _wrong(self, target: str, content: Content, whole: bool) -> str | None:
        path = f"{self.root}/{target}"
        try:
            size = _status(path).st_size
        except FileNotFoundError:
            return "is missing"
        if size != content.size:
            return f"has {size:,} bytes, {content.size:,} were published"
        if whole and content_of(Path(path)) != content:
            return "has other bytes than were published; remove it, and it is made again"
        return None


def fingerprint(*facts: Any) -> str:
    """What something is made of, as a hash: another one where any of it has changed."""
    return xxhash.xxh3_64_hexdigest(repr(facts).encode())


def _superseded(pending: Path, current: Commit | None) -> dict[str, int]:
    """The files that a unit had, or was to have, and has no more, and since when (ns)."""
    named = json.loads(pending.read_text()) if pending.exists() else {}
    if isinstance(named, list):  # of an early version
        named = dict.fromkeys(named, 0)
    return {file: named[file] for file in named if not current or file not in current.files}


def _write_pending(pending: Path, superseded: dict[str, int]) -> None:
    if superseded:
        write_durably(pending, json.dumps(superseded))
    else:
        pending.unlink(missing_ok=True)
