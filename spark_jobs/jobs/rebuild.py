"""A lost catalog made again from Iceberg's metadata and the Parquet files.

Iceberg's metadata tell which files were published, and the facts that no file has (see
Warehouse.published_files). Captures are known by their rows of ingest_log. What a day's tables were
made of is not told, so the next run makes them anew; until then they are read as they are.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas import DAILY_TABLES, INGEST_LOG, LEASES, NETWORKS, PACKETS, QUALITY, TABLES, Table
from spark_jobs.jobs.forgotten import OF_CAPTURES
from spark_jobs.warehouse import Staging, Unit, Warehouse, Written

BY_CAPTURE = (*OF_CAPTURES, INGEST_LOG)
"""Tables whose files have a capture's rows, or those of several (see compaction.py)."""
KINDS: dict[Table, str] = {
    **dict.fromkeys(DAILY_TABLES, "day"),
    LEASES: "leases",
    QUALITY: "quality",
    NETWORKS: "network",
}
"""The kinds of the units that other tables' files are of; those of the rest are marts."""
UNKNOWN: dict[str, Any] = {"inputs": None}
"""Facts of a unit of a day: it is not current, so the next run makes it again."""


@dataclass
class Rebuilt:
    """What a catalog has now. not_told: a line about each thing that could not be made again."""

    units: int = 0
    files: int = 0
    not_told: list[str] = field(default_factory=list)


@dataclass
class Capture:
    """A capture's files, and what they hold; log: its row of ingest_log."""

    files: list[str] = field(default_factory=list)
    rows: int = 0
    values: int = 0
    dates: set[str] = field(default_factory=set)
    log: dict[str, Any] | None = None


def rebuild(root: Path) -> Rebuilt:
    """Give a warehouse, whose catalog has nothing, a catalog of what is there.

    Raises UserError if the catalog has anything.
    """
    warehouse = Warehouse(root, catalog_is_lost=True)
    shown, facts = warehouse.published_files()
    told = Rebuilt(
        not_told=[
            f"{root / table}: without readable Iceberg metadata: its files are left out"
            for table in TABLES
            if table not in shown and (root / table).is_dir()
        ]
    )
    units = {unit: (of_unit, list[str]()) for unit, of_unit in facts.items()}
    with warehouse.staging() as staging:
        captures: dict[Unit, Capture] = defaultdict(Capture)
        split: list[Written] = []
        for target in sorted(target for targets in shown.values() for target in targets):
            try:
                (root / target).stat()
                if TABLES[target.partition("/")[0]] in BY_CAPTURE:
                    split += _read(root, target, staging, captures)
                else:
                    _, files = units.setdefault(*_unit_of(root, target))
                    files.append(target)
            except (OSError, ValueError) as error:
                told.not_told.append(f"{root / target}: cannot be read: {error}".splitlines()[0])
        for unit, capture in captures.items():
            told.not_told += _lacks(unit, capture)
            if capture.log:
                units[unit] = _facts_of(capture.log, capture), capture.files
        warehouse.restore(units, split)
    told.units, told.files = len(units), sum(len(files) for _, files in units.values())
    return told


def _read(
    root: Path, target: str, staging: Staging, captures: dict[Unit, Capture]
) -> list[Written]:
    """Add a file to the captures whose rows it has; a merged file is split into files of each,
    which are returned."""
    from spark_jobs.warehouse.compaction import Place, by_capture, split

    place = Place.of(target)
    rows_of: dict[str, Capture] = defaultdict(Capture)
    for name, rows in by_capture(root / target, place):
        capture = rows_of[name]
        capture.rows += len(rows)
        capture.values += sum(len(rows) - column.null_count for column in rows.columns)
        if place.table is INGEST_LOG:
            (capture.log,) = rows.to_pylist()
    parts = split(root, target, staging) if len(rows_of) > 1 else {}
    for name, found in rows_of.items():
        capture = captures[Unit("capture", place.network, name)]
        capture.files.append(parts[name].staged.target if parts else target)
        if found.log:
            capture.log = found.log
            continue
        capture.rows, capture.values = capture.rows + found.rows, capture.values + found.values
        if place.table is PACKETS and place.date:
            capture.dates.add(place.date.isoformat())
    return [*parts.values()]


def _unit_of(root: Path, target: str) -> tuple[Unit, tuple[dict[str, Any], list[str]]]:
    """The unit that a file is of, and what that is if nothing else is known of it."""
    from spark_jobs.warehouse.compaction import Place
    from spark_jobs.warehouse.files import read_rows

    place = Place.of(target)
    kind = KINDS.get(place.table, "marts")
    if place.table is NETWORKS:
        (row,) = read_rows(NETWORKS, [root / target]).to_pylist()
        return Unit(kind, place.network), (row | {"users": None}, [])
    assert place.date
    facts = UNKNOWN
    if place.table is QUALITY:
        rows = read_rows(QUALITY, [root / target]).to_pylist()
        findings = [row["finding"] for row in rows if not row["passed"]]
        released = next((row["released"] for row in rows if row["released"]), None)
        facts = {"findings": findings, "released": released, "data": None, "limits": None}
    return Unit.of_day(kind, place.network, place.date), (facts, [])


def _lacks(unit: Unit, capture: Capture) -> list[str]:
    """What is not there of a capture, in a line."""
    which = f"capture {unit.name} of {unit.network}"
    if capture.log is None:
        return [f"{which}: has no row in ingest_log: its files are left out"]
    if capture.rows != capture.log["rows"]:
        rows = capture.log["rows"]
        return [f"{which}: {capture.rows:,} of {rows:,} rows are there: ingest it again"]
    return []


def _facts_of(log: dict[str, Any], capture: Capture) -> dict[str, Any]:
    """A capture's facts; without a stamp: the next run reads it again, if it is still there."""
    from spark_jobs.warehouse.files import microseconds

    first, last = log["first_ts"], log["last_ts"]
    names = ("content", "frames", "packets", "rows", "front_end", "duplicate_of")
    return {
        **{name: log[name] for name in names},
        "stamp": None,
        "values": capture.values,
        "skipped": dict(log["skipped"]),
        "first_us": microseconds(first) if first else None,
        "last_us": microseconds(last) if last else None,
        "dates": sorted(capture.dates),
        "replaces": {},
    }
