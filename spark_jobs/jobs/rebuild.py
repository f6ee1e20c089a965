"""Rebuilding of a lost catalog from Iceberg's metadata and the Parquet files.

Iceberg's metadata have the published files, and the facts that are in no file (see
Warehouse.read_iceberg_metadata). The captures are known from their rows of ingest_log. Nothing has
the inputs of a day's tables: the next run makes these tables again, and until then readers see them
as they are.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas import DAILY_TABLES, INGEST_LOG, LEASES, NETWORKS, PACKETS, QUALITY, Table
from spark_jobs.figures.tables import TABLES
from spark_jobs.jobs.exclusions import CAPTURE_TABLES
from spark_jobs.warehouse.files import Written
from spark_jobs.warehouse.staging import Staging
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit

BY_CAPTURE = (*CAPTURE_TABLES, INGEST_LOG)
"""Tables whose files have the rows of one capture, or of several (see compaction.py)."""
KINDS: dict[Table, str] = {
    **dict.fromkeys(DAILY_TABLES, "day"),
    LEASES: "leases",
    QUALITY: "quality",
    NETWORKS: "network",
}
"""The kinds of units that other tables' files belong to; the remaining tables are marts."""
STALE_FACTS: dict[str, Any] = {"inputs": None}
"""Facts of a day's unit that is not current, so that the next run makes it again."""


@dataclass
class Rebuilt:
    """The contents of the rebuilt catalog.

    missing: a line about each thing that could not be restored
    """

    units: int = 0
    files: int = 0
    missing: list[str] = field(default_factory=list)


@dataclass
class CaptureFiles:
    """A capture's files, and their contents.

    log: its row of ingest_log
    """

    files: list[str] = field(default_factory=list)
    rows: int = 0
    values: int = 0
    dates: set[str] = field(default_factory=set)
    log: dict[str, Any] | None = None


def rebuild(root: Path) -> Rebuilt:
    """Give a warehouse with an empty catalog a catalog of its files.

    Raises UserError if the catalog is not empty.
    """
    warehouse = Warehouse(root, catalog_is_lost=True)
    published, facts = warehouse.read_iceberg_metadata()
    rebuilt = Rebuilt(
        missing=[
            f"{root / table}: has no readable Iceberg metadata: its files are left out"
            for table in TABLES
            if table not in published and (root / table).is_dir()
        ]
    )
    units = {unit: (unit_facts, list[str]()) for unit, unit_facts in facts.items()}
    with warehouse.staging() as staging:
        captures: dict[Unit, CaptureFiles] = defaultdict(CaptureFiles)
        split: list[Written] = []
        for target in sorted(target for targets in published.values() for target in targets):
            try:
                (root / target).stat()
                if TABLES[target.partition("/")[0]] in BY_CAPTURE:
                    split += _add_file(root, target, staging, captures)
                else:
                    _, files = units.setdefault(*_unit_of(root, target))
                    files.append(target)
            except (OSError, ValueError) as error:
                rebuilt.missing.append(f"{root / target}: cannot be read: {error}".splitlines()[0])
        for unit, capture in captures.items():
            rebuilt.missing += _missing_lines(unit, capture)
            if capture.log:
                units[unit] = _capture_facts(capture.log, capture), capture.files
        warehouse.restore(units, split)
    rebuilt.units, rebuilt.files = len(units), sum(len(files) for _, files in units.values())
    return rebuilt


def _add_file(
    root: Path, target: str, staging: Staging, captures: dict[Unit, CaptureFiles]
) -> list[Written]:
    """Add a file to the captures whose rows it has.

    A merged file is split into a file for each capture; these are returned.
    """
    from spark_jobs.warehouse.compaction import split
    from spark_jobs.warehouse.row_groups import rows_by_capture
    from spark_jobs.warehouse.targets import Partition

    place = Partition.of(target)
    rows_of: dict[str, CaptureFiles] = defaultdict(CaptureFiles)
    for name, rows in rows_by_capture(root / target, place.table):
        capture = rows_of[name]
        capture.rows += len(rows)
        capture.values += sum(len(rows) - column.null_count for column in rows.columns)
        if place.table is INGEST_LOG:
            (capture.log,) = rows.to_pylist()
    parts = split(root, target, staging) if len(rows_of) > 1 else {}
    for name, part in rows_of.items():
        capture = captures[Unit("capture", place.network, name)]
        capture.files.append(parts[name].staged.target if parts else target)
        if part.log:
            capture.log = part.log
            continue
        capture.rows, capture.values = capture.rows + part.rows, capture.values + part.values
        if place.table is PACKETS and place.date:
            capture.dates.add(place.date.isoformat())
    return [*parts.values()]


def _unit_of(root: Path, target: str) -> tuple[Unit, tuple[dict[str, Any], list[str]]]:
    """Return a file's unit, and the unit's facts and files if nothing else is known of it."""
    from spark_jobs.warehouse.files import read_rows
    from spark_jobs.warehouse.targets import Partition

    place = Partition.of(target)
    kind = KINDS.get(place.table, "marts")
    if place.table is NETWORKS:
        (row,) = read_rows(NETWORKS, [root / target]).to_pylist()
        return Unit(kind, place.network), (row | {"users": None}, [])
    assert place.date
    facts = STALE_FACTS
    if place.table is QUALITY:
        rows = read_rows(QUALITY, [root / target]).to_pylist()
        findings = [row["finding"] for row in rows if not row["passed"]]
        released = next((row["released"] for row in rows if row["released"]), None)
        facts = {"findings": findings, "released": released, "data": None, "limits": None}
    return Unit.of_day(kind, place.network, place.date), (facts, [])


def _missing_lines(unit: Unit, capture: CaptureFiles) -> list[str]:
    """Return a line that says what is missing of a capture, if anything."""
    name = f"capture {unit.name} of {unit.network}"
    if capture.log is None:
        return [f"{name}: has no row in ingest_log: its files are left out"]
    if capture.rows != capture.log["rows"]:
        rows = capture.log["rows"]
        return [f"{name}: {capture.rows:,} of {rows:,} rows are there: ingest it again"]
    return []


def _capture_facts(log: dict[str, Any], capture: CaptureFiles) -> dict[str, Any]:
    """Return a capture's facts.

    They have no stamp: the next run reads the file again, if it still exists.
    """
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
