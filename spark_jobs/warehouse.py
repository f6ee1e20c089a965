"""Where tables lie, and how they change: whole or not at all. Nothing else knows a path.

Parquet files lie in TABLE/network=N/date=D/. What is published together (all packets of a
capture, all tables of a day) is a unit; a unit's commit file lists its Parquet files, and
replacing that one file is what publishes. Readers go by the commit files, so they see a unit
before a change or after it. What an interrupted change leaves behind is removed by the unit's
next one.
"""

import datetime
import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from schemas import TABLES, Table

COMMITS, STAGING, OWNER = "_commits", "_staging", "owner.lock"
NO_DATE = "__HIVE_DEFAULT_PARTITION__"
LARGEST_ROW_GROUP = 1 << 24


@dataclass(frozen=True)
class Unit:
    """What is published together: kind is capture, day, marts or network."""

    kind: str
    network: str
    name: str = "all"


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
        return pq.ParquetWriter(
            path, table.arrow_dictionary, store_schema=False, **table.parquet_options
        )

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
        """Replace the unit by these staged files (see Staging.files), at one stroke."""
        commit_file = self._commit_file(unit)
        commit_file.parent.mkdir(parents=True, exist_ok=True)
        with self.locked(f"{unit.kind}-{unit.network}-{unit.name}"):
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
            self._sweep(pending, new)

    def _sweep(self, pending: Path, current: Commit | None) -> None:
        """Remove the files of an unfinished change that are not the unit's own."""
        if not pending.exists():
            return
        keep = set(current.files) if current else set()
        for target in json.loads(pending.read_text()):
            if target not in keep:
                (self.root / target).unlink(missing_ok=True)
        pending.unlink()

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """One process at a time per name."""
        folder = self.root / COMMITS / "locks"
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

    def files(
        self, table: Table, network: str | None = None, date: datetime.date | None = None
    ) -> list[Path]:
        """The published Parquet files of a table, sorted by path."""
        start = f"{table.name}/" + (f"network={network}/" if network else "")
        day = f"/date={date.isoformat()}/" if date else ""
        kinds = [path.name for path in sorted((self.root / COMMITS).glob("*")) if path.is_dir()]
        return sorted(
            self.root / target
            for kind in kinds
            if kind != "locks"
            for commit in self.commits(kind, network)
            for target in commit.files
            if target.startswith(start) and day in target
        )

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

    def connect(self) -> duckdb.DuckDBPyConnection:
        """SQL over every table: one view each, empty where nothing has been published."""
        connection = duckdb.connect()
        connection.execute("set timezone = 'UTC'")
        for table in TABLES.values():
            connection.execute(self._view(connection, table))
        return connection

    def _view(self, connection: duckdb.DuckDBPyConnection, table: Table) -> str:
        """Files of an earlier version may lack columns: these are null there."""
        files = self.files(table)
        empty = f"_empty_{table.name}"
        connection.register(empty, table.arrow_with_partitions.empty_table())
        if not files:
            return f'create view "{table.name}" as select * from "{empty}"'
        names = ", ".join(f'"{name}"' for name in table.arrow_with_partitions.names)
        paths = ", ".join("'" + str(path).replace("'", "''") + "'" for path in files)
        types = {"network": "varchar", "date": "date"}
        hive = ", ".join(f"'{c.name}': {types[c.name]}" for c in table.partitions)
        return (
            f'create view "{table.name}" as select {names} from (select * from "{empty}" '
            f"union all by name select * from read_parquet([{paths}], union_by_name = true, "
            f"hive_partitioning = true, hive_types = {{{hive}}}))"
        )


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
