"""Publishing of a capture that was read, with its row of ingest_log."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from schemas import INGEST_LOG, PACKETS, Table
from spark_jobs.base.errors import FullDiskError, UserError, in_a_line
from spark_jobs.ingest.files import CaptureFile, capture_day, capture_name
from spark_jobs.ingest.plan import capture_unit
from spark_jobs.warehouse.facts import CaptureFacts
from spark_jobs.warehouse.files import Written
from spark_jobs.warehouse.staging import Staging
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import PublishedUnit, Unit


@dataclass
class CaptureRead:
    """A capture or log that was read, before it is published.

    facts: what is known of it, with the error if one ended the reading
    notes: lines for the user
    files: the staged files with its rows
    disk_full: the error is a full disk, so the file may be good
    """

    facts: CaptureFacts = field(default_factory=CaptureFacts)
    notes: list[str] = field(default_factory=list)
    files: list[Written] = field(default_factory=list)
    disk_full: bool = False


@dataclass
class CaptureOutcome:
    """The outcome of one capture file.

    facts: what is known of the capture
    dates: the days whose packets it changed
    notes: lines for the user
    unchanged: the file was ingested before, and has not changed since
    network_refused: the error is the network's, so nothing of the network was ingested
    disk_full: the error is a full disk, so the file may be good
    """

    network: str
    capture: str
    path: Path
    facts: CaptureFacts
    dates: list[date] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unchanged: bool = False
    network_refused: bool = False
    disk_full: bool = False

    @classmethod
    def of(cls, file: CaptureFile, facts: CaptureFacts) -> CaptureOutcome:
        """Return the outcome of a file, of which these facts are known."""
        network, path = file
        return cls(network.name, capture_name(path), path, facts)

    @property
    def error(self) -> str | None:
        """The reason why it gave nothing."""
        return self.facts.error


class _SameContentError(UserError):
    """Error of a file whose content another capture has."""

    def __init__(self, path: Path, other: str):
        super().__init__(f"{path}: holds the same packets as {other}, which is ingested already")
        self.other = other


def publish_capture(
    warehouse: Warehouse, staging: Staging, file: CaptureFile, read: CaptureRead, inputs: str
) -> CaptureOutcome:
    """Publish a capture's rows, or its row of ingest_log with the reason why it gave none.

    inputs: the hash of what the rows depend on (see plan.inputs_hash)
    """
    unit = capture_unit(file)
    outcome = CaptureOutcome.of(file, read.facts.replace(inputs=inputs))
    outcome.notes, outcome.disk_full = read.notes, read.disk_full
    previous = warehouse.published(unit)
    error, duplicate_of = read.facts.error, None
    if not error:
        try:
            with warehouse.captures_locked(unit.network):
                _reject_same_content(warehouse, unit, outcome)
                with staging.part() as part:
                    stage_log_row(part, unit, outcome.facts)
                warehouse.publish(unit, [*read.files, *part.files], outcome.facts)
            before = CaptureFacts.of(previous).dates if previous else []
            outcome.dates = sorted({*outcome.facts.dates, *before})
            return outcome
        except _SameContentError as reason:
            error, duplicate_of = str(reason), reason.other
        except Exception as reason:
            error, outcome.disk_full = in_a_line(reason), isinstance(reason, FullDiskError)
    warehouse.remove_staged(read.files)
    outcome.facts = read.facts.without_rows(error, duplicate_of)
    if outcome.path.exists() and not (previous and previous.files):
        with staging.part() as part:
            stage_log_row(part, unit, outcome.facts)
        warehouse.publish(unit, part.files, outcome.facts)
    return outcome


def _reject_same_content(warehouse: Warehouse, unit: Unit, outcome: CaptureOutcome) -> None:
    """Raise _SameContentError if another capture with rows has the same uncompressed bytes.

    A capture with a part of the packets of another one is published; the check `copied_share` then
    holds its days.
    """
    for other in warehouse.published_units("capture", unit.network):
        facts = CaptureFacts.of(other)
        if other.unit != unit and facts.rows and facts.content == outcome.facts.content:
            raise _SameContentError(outcome.path, other.unit.name)


def count_rows(facts: CaptureFacts, table: Table, day: date, rows: pa.Table) -> CaptureFacts:
    """Return the facts of a capture or log with some more rows of a day."""
    low, high = (time.as_py() for time in pc.min_max(rows["ts"].cast(pa.int64())).values())
    counted = facts.replace(
        rows=facts.rows + len(rows),
        first_us=low if facts.first_us is None else min(facts.first_us, low),
        last_us=high if facts.last_us is None else max(facts.last_us, high),
    )
    if table is not PACKETS:
        return counted
    return counted.replace(
        packets=facts.packets + len(rows),
        ipv6_packets=facts.ipv6_packets + rows["ip_id"].null_count,
        dates=sorted({*facts.dates, day}),
    )


def stage_log_row(staging: Staging, unit: Unit, facts: CaptureFacts) -> None:
    """Stage a capture's row of ingest_log."""
    log = facts.log_row(unit.name)
    day = log["first_ts"].date() if log["first_ts"] else capture_day(unit.name)
    rows = pa.Table.from_pylist([log], schema=INGEST_LOG.arrow).cast(INGEST_LOG.arrow_dictionary)
    with staging.writer(INGEST_LOG, unit.network, day, unit.name) as writer:
        writer.write_table(rows)


def log_files(capture: PublishedUnit) -> set[str]:
    """Return the files that have a capture's row of ingest_log."""
    return {target for target in capture.stored_in if target.startswith(f"{INGEST_LOG.name}/")}
