"""Where tables lie, and how they change: whole or not at all. Nothing else knows a path.

Parquet files lie in TABLE/network=N/date=D/. What is published together (all packets of a
capture, all tables of a day) is a unit; a unit's commit file lists its Parquet files, and
replacing that one file is what publishes. Readers go by the commit files, so they see a unit
before a change or after it; or by the views in VIEWS, which every job brings up to date when it
ends. Then, or by the unit's next change, the files that a change superseded are removed, and what
an interrupted change left behind.
"""

import datetime
import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from schemas import TABLES, Table
from spark_jobs.warehouse.files import LARGEST_ROW_GROUP, table_writer
from spark_jobs.warehouse.views import create_views, may_ask

COMMITS, LOCKS, STAGING, OWNER = "_commits", "locks", "_staging", "owner.lock"
VIEWS = "warehouse.duckdb"
NO_DATE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Unit:
    """What is published together: kind is network, capture, or what is published by day: day (the
    flows and the tables beside them), leases, marts, quality."""

    kind: str
    network: str
    name: str = "all"

    @classmethod
    def of_day(cls, kind: str, network: str, day: datetime.date) -> "Unit":
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
        self._folder = folder
        self.files: dict[str, Path] = {}

    def path(self, table: Table, network: str, date: datetime.date | None, stem: str) -> Path:
        """Where to write a Parquet file of a partition."""
        version = uuid.uuid4().hex[:8]
        parts = [table.name, f"network={network}"]
        if len(table.partitions) > 1:
            parts.append(f"date={date.isoformat() if date else NO_DATE}")
        target = "/".join([*parts, f"{quote(stem, safe='')[:180]}-{version}.parquet"])
        self.files[target] = self._folder / f"{len(self.files):05d}-{version}.parquet"
        return self.files[target]

    def writer(
        self, table: Table, network: str, date: datetime.date | None, stem: str
    ) -> pq.ParquetWriter:
        """A writer of tables with the schema `table.arrow_dictionary`."""
        path = self.path(table, network, date, stem)
        return table_writer(table, path)

    def write(
        self, table: Table, network: str, date: datetime.date | None, stem: str, rows: pa.Table
    ) -> None:
        """Rows as one file of a partition; their columns must be the schema's."""
        with self.writer(table, network, date, stem) as writer:
            writer.write_table(
                rows.select(table.arrow.names).cast(table.arrow_dictionary),
                row_group_size=LARGEST_ROW_GROUP,
            )


class Warehouse:
    """All tables under one folder."""

    def __init__(self, root: Path):
        self.root = root

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
            _write_durably(pending, json.dumps([*files, *old_files]))
            for target, staged in files.items():
                final = self.root / target
                final.parent.mkdir(parents=True, exist_ok=True)
                _sync(staged)
                staged.replace(final)
            new = Commit(unit, tuple(files), facts)
            _write_durably(commit_file, json.dumps(asdict(new), indent=1))

    def _changing(self, unit: Unit) -> AbstractContextManager[None]:
        return self.locked(f"{unit.kind}-{unit.network}-{unit.name}")

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
        with (folder / quote(name, safe="")[:200]).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def commit(self, unit: Unit) -> Commit | None:
        """The unit as it stands, or None."""
        try:
            raw = json.loads(self._commit_file(unit).read_text())
        except FileNotFoundError:
            return None
        return Commit(Unit(**raw["unit"]), tuple(raw["files"]), raw["facts"])

    def commits(self, kind: str, network: str | None = None) -> list[Commit]:
        """All units of a kind, by network and name."""
        folder = self.root / COMMITS / kind
        found = sorted(folder.glob(f"{network or '*'}/*.json"))
        raws = [json.loads(path.read_text()) for path in found]
        return [Commit(Unit(**raw["unit"]), tuple(raw["files"]), raw["facts"]) for raw in raws]

    def days(self, kind: str, network: str | None = None) -> list[tuple[str, datetime.date]]:
        """(network, day) of every unit of a kind that is published by day, sorted."""
        return [(c.unit.network, c.unit.day) for c in self.commits(kind, network)]

    def files(
        self, table: Table, network: str | None = None, date: datetime.date | None = None
    ) -> list[Path]:
        """The published Parquet files of a table, sorted by path."""
        start = f"{table.name}/" + (f"network={network}/" if network else "")
        day = f"/date={date.isoformat()}/" if date else ""
        return sorted(
            self.root / target
            for target in self._targets(network)
            if target.startswith(start) and day in target
        )

    def _targets(self, network: str | None = None) -> Iterator[str]:
        """Every published file's path under the root."""
        kinds = [path.name for path in (self.root / COMMITS).glob("*") if path.name != LOCKS]
        for kind in kinds:
            for commit in self.commits(kind, network):
                yield from commit.files

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
        return self.root / COMMITS / unit.kind / unit.network / f"{quote(unit.name, safe='')}.json"

    def connect(self, query: str | None = None) -> duckdb.DuckDBPyConnection:
        """SQL over every table: one view each, empty where nothing has been published. With the
        query that is to be asked, of the tables that it may be about only: a view of many files
        takes its time."""
        connection = duckdb.connect()
        connection.execute("set timezone = 'UTC'")
        tables = self.tables()
        if query is not None:
            tables = {table: files for table, files in tables.items() if may_ask(query, table.name)}
        create_views(connection, tables)
        return connection

    def update_views(self) -> None:
        """Make the views in VIEWS those of what is published; then remove what it superseded.

        VIEWS is replaced, never changed, so that nobody who reads it locks it or is locked out.
        """
        with self.locked("views"):
            tables = self.tables()
            fresh = self.root / f".{VIEWS}.{uuid.uuid4().hex}"
            try:
                with duckdb.connect(fresh) as connection:
                    create_views(connection, tables)
                fresh.replace(self.root / VIEWS)
            finally:
                fresh.unlink(missing_ok=True)
            self._remove_superseded({path for files in tables.values() for path in files})

    def tables(self) -> dict[Table, list[Path]]:
        """The published Parquet files of every table."""
        targets = sorted(self._targets())
        return {
            table: [self.root / t for t in targets if t.startswith(f"{table.name}/")]
            for table in TABLES.values()
        }

    def _remove_superseded(self, in_use: set[Path]) -> None:
        """What is superseded but in use was so by a job that is about to update the views."""
        for pending in (self.root / COMMITS).rglob("*.pending"):
            kind, network = pending.parts[-3:-1]
            unit = Unit(kind, network, unquote(pending.stem))
            with self._changing(unit):
                current = self.commit(unit)
                if not in_use & self._superseded(pending, current):
                    self._sweep(pending, current)


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
