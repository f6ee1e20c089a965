"""Publishing of a capture that was read, and of captures whose place another one takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from schemas import PACKETS
from spark_jobs.base.errors import FullDiskError, in_a_line
from spark_jobs.capture.duplicate_captures import (
    CapturePackets,
    DuplicateCaptureError,
    find_replaced_captures,
)
from spark_jobs.capture.files import capture_name
from spark_jobs.capture.ingest_log import restage_log_row, stage_log_row
from spark_jobs.capture.plan import CaptureFile
from spark_jobs.warehouse.facts import CaptureFacts
from spark_jobs.warehouse.staging import Staging
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import PublishedUnit, Unit

if TYPE_CHECKING:
    from spark_jobs.capture.rows_of_file import CaptureRead


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

    @property
    def unit(self) -> Unit:
        """The unit of the capture."""
        return Unit("capture", self.network, self.capture)


def publish_capture(
    warehouse: Warehouse, staging: Staging, file: CaptureFile, read: CaptureRead
) -> CaptureOutcome:
    """Publish a capture's rows, or its row of ingest_log with the reason why it gave none."""
    outcome = CaptureOutcome.of(file, read.facts)
    outcome.notes, outcome.disk_full = read.notes, read.disk_full
    previous = warehouse.published(outcome.unit)
    error, duplicate_of = read.facts.error, None
    if not error:
        try:
            _publish_rows(warehouse, staging, outcome, read, previous)
            return outcome
        except DuplicateCaptureError as reason:
            error, duplicate_of = str(reason), reason.duplicate_of
        except Exception as reason:
            error, outcome.disk_full = in_a_line(reason), isinstance(reason, FullDiskError)
    warehouse.remove_staged(read.files)
    outcome.facts = read.facts.without_rows(error, duplicate_of)
    if outcome.path.exists() and not (previous and previous.files):
        with staging.part() as part:
            stage_log_row(part, outcome.unit, outcome.facts)
        warehouse.publish(outcome.unit, part.files, outcome.facts)
    return outcome


def _publish_rows(
    warehouse: Warehouse,
    staging: Staging,
    outcome: CaptureOutcome,
    read: CaptureRead,
    previous: PublishedUnit | None,
) -> None:
    """Publish a capture's rows, in the place of the captures whose packets it contains."""
    unit = outcome.unit
    with warehouse.captures_locked(unit.network):
        others = [c for c in warehouse.published_units("capture", unit.network) if c.unit != unit]
        assert read.sample is not None
        paths = [file.staged.path for file in read.files if file.belongs_to(PACKETS)]
        new = CapturePackets(unit.name, read.facts, paths, read.sample)
        replaced = find_replaced_captures(warehouse, others, outcome.path, new)
        contents = {old.unit.name: CaptureFacts.of(old).content for old in replaced}
        facts = read.facts.replace(replaces=contents)
        with staging.part() as part:
            stage_log_row(part, unit, facts, read.sample)
        warehouse.publish(unit, [*read.files, *part.files], facts)
        for old in replaced:
            _publish_replaced(warehouse, old, unit.name)
    superseded = [CaptureFacts.of(old) for old in (previous, *replaced) if old]
    outcome.facts = facts
    outcome.dates = sorted({day for known in (facts, *superseded) for day in known.dates})
    outcome.notes += [
        f"{outcome.path}: replaces {name}, whose packets it contains" for name in contents
    ]


def _publish_replaced(warehouse: Warehouse, old: PublishedUnit, duplicate_of: str) -> None:
    """Publish that a capture gives no rows any more, because another capture has its packets."""
    error = _replaced_message(old.unit.name, duplicate_of)
    facts = CaptureFacts.of(old).without_rows(error, duplicate_of)
    with warehouse.staging() as staging:
        restage_log_row(warehouse, staging, old, facts)
        warehouse.publish(old.unit, staging.files, facts)


def finish_replacing(warehouse: Warehouse, network: str) -> None:
    """Finish the replacing of captures that a killed job left unfinished.

    Such a job had published the new capture, but not yet that the older ones give no rows any more.
    """
    with warehouse.captures_locked(network):
        for new in warehouse.published_units("capture", network):
            for name, content in CaptureFacts.of(new).replaces.items():
                old = warehouse.published(Unit("capture", network, name))
                if old and (facts := CaptureFacts.of(old)).packets and facts.content == content:
                    _publish_replaced(warehouse, old, new.unit.name)


def report_if_replaced(warehouse: Warehouse, outcome: CaptureOutcome) -> None:
    """Change the outcome of a capture that another capture of the same run has replaced."""
    published = warehouse.published(outcome.unit)
    if published and not outcome.error:
        if duplicate_of := CaptureFacts.of(published).duplicate_of:
            error = _replaced_message(str(outcome.path), duplicate_of)
            outcome.facts = outcome.facts.without_rows(error, duplicate_of)


def _replaced_message(capture: str, duplicate_of: str) -> str:
    return f"{capture}: its packets are in {duplicate_of}, which has more and took its place"
