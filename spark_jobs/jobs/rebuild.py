"""Rebuilding of a lost catalog from Iceberg's metadata and the Parquet files.

Iceberg's metadata have the published files, and the facts that are in no file (see
Warehouse.read_iceberg_metadata). The captures are known from their rows of ingest_log. Nothing has
the inputs of a day's tables: the next run makes these tables again, and until then readers see them
as they are.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from schemas import DAILY_TABLES, INGEST_LOG, LEASES, NETWORKS, PACKETS, PEAK_HOURS, QUALITY, Table
from spark_jobs.capture.untrusted import kind_of
from spark_jobs.figures.tables import TABLES
from spark_jobs.ingest.exclusions import CAPTURE_TABLES
from spark_jobs.warehouse.compaction import split
from spark_jobs.warehouse.facts import CaptureFacts, Facts, MadeFacts, NetworkFacts, QualityFacts
from spark_jobs.warehouse.files import Written, microseconds, read_rows
from spark_jobs.warehouse.row_groups import rows_by_capture
from spark_jobs.warehouse.staging import Staging
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.targets import Partition
from spark_jobs.warehouse.units import Unit

BY_CAPTURE = (*CAPTURE_TABLES, INGEST_LOG)
"""Tables whose files have the rows of one capture, or of several (see compaction.py)."""
KINDS: dict[Table, str] = {
    **dict.fromkeys(DAILY_TABLES, "day"),
    LEASES: "leases",
    PEAK_HOURS: "hours",
    QUALITY: "quality",
    NETWORKS: "network",
}
"""The kinds of units that other tables' files belong to; the remaining tables are marts."""


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
    dates: set[date] = field(default_factory=set)
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
    files: dict[Unit, list[str]] = defaultdict(list)
    with warehouse.staging() as staging:
        captures: dict[Unit, CaptureFiles] = defaultdict(CaptureFiles)
        parts: list[Written] = []
        for target in sorted(target for targets in published.values() for target in targets):
            try:
                (root / target).stat()
                place = Partition.of(target)
                if place.table in BY_CAPTURE:
                    parts += _add_file(root, target, staging, captures)
                    continue
                facts.setdefault(_unit_of(place), _facts_of(root / target, place).as_json())
                files[_unit_of(place)].append(target)
            except (OSError, ValueError) as error:
                rebuilt.missing.append(f"{root / target}: cannot be read: {kind_of(error)}")
        for unit, capture in captures.items():
            rebuilt.missing += _missing_lines(unit, capture)
            if capture.log:
                facts[unit], files[unit] = _capture_facts(capture).as_json(), capture.files
        warehouse.restore({unit: (facts[unit], files[unit]) for unit in facts}, parts)
    rebuilt.units, rebuilt.files = len(facts), sum(map(len, files.values()))
    return rebuilt


def _add_file(
    root: Path, target: str, staging: Staging, captures: dict[Unit, CaptureFiles]
) -> list[Written]:
    """Add a file to the captures whose rows it has.

    A merged file is split into a file for each capture; these are returned.
    """
    place = Partition.of(target)
    rows_of: dict[str, CaptureFiles] = defaultdict(CaptureFiles)
    for name, rows in rows_by_capture(root / target, place.table):
        capture = rows_of[name]
        capture.rows += len(rows)
        if place.table is INGEST_LOG:
            (capture.log,) = rows.to_pylist()
    parts = split(root, target, staging) if len(rows_of) > 1 else {}
    for name, part in rows_of.items():
        capture = captures[Unit("capture", place.network, name)]
        capture.files.append(parts[name].staged.target if parts else target)
        if part.log:
            capture.log = part.log
            continue
        capture.rows += part.rows
        if place.table is PACKETS and place.date:
            capture.dates.add(place.date)
    return [*parts.values()]


def _unit_of(place: Partition) -> Unit:
    """Return the unit that has the files of a partition."""
    kind = KINDS.get(place.table, "marts")
    return Unit.of_day(kind, place.network, place.date) if place.date else Unit(kind, place.network)


def _facts_of(path: Path, place: Partition) -> Facts:
    """Return the facts of a file's unit, if nothing else is known of it."""
    if place.table is NETWORKS:
        (row,) = read_rows(NETWORKS, [path]).to_pylist()
        return NetworkFacts(**row, users=None)
    if place.table is QUALITY:
        rows = read_rows(QUALITY, [path]).to_pylist()
        return QualityFacts(
            findings=[row["finding"] for row in rows if not row["passed"]],
            released=next((row["released"] for row in rows if row["released"]), None),
        )
    return MadeFacts()  # without inputs: the next run makes the unit again


def _missing_lines(unit: Unit, capture: CaptureFiles) -> list[str]:
    """Return a line that says what is missing of a capture, if anything."""
    name = f"capture {unit.name} of {unit.network}"
    if capture.log is None:
        return [f"{name}: has no row in ingest_log: its files are left out"]
    if capture.rows != capture.log["rows"]:
        rows = capture.log["rows"]
        return [f"{name}: {capture.rows:,} of {rows:,} rows are there: ingest it again"]
    return []


def _capture_facts(capture: CaptureFiles) -> CaptureFacts:
    """Return a capture's facts.

    They have no inputs: the next run reads the file again, if it still exists.
    """
    assert capture.log
    log = capture.log
    first, last = log["first_ts"], log["last_ts"]
    return CaptureFacts.model_validate(
        log
        | {
            "skipped": dict(log["skipped"]),
            "first_us": microseconds(first) if first else None,
            "last_us": microseconds(last) if last else None,
            "dates": sorted(capture.dates),
            "size": log["bytes"],
        }
    )
