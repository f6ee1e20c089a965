"""The ingest job: it reads captures into packets, and logs of Zeek into packets or other tables.

One task reads one file. The job publishes each file's rows as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.base.errors import in_a_line
from spark_jobs.capture import FrontEnd
from spark_jobs.capture.files import has_log_name
from spark_jobs.capture.plan import CaptureFile, plan_ingest
from spark_jobs.capture.removal_filter import RemovalFilter
from spark_jobs.engine.tasks import Failure, by_spark, run_tasks
from spark_jobs.jobs.leases import update_leases
from spark_jobs.jobs.publish_capture import (
    CaptureOutcome,
    finish_replacing,
    publish_capture,
    report_if_replaced,
)
from spark_jobs.jobs.publish_network import keys_with_secret, publish_network
from spark_jobs.removal.exclusions import load_exclusions
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse.facts import CaptureFacts
from spark_jobs.warehouse.staging import Staging
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit

if TYPE_CHECKING:
    from spark_jobs.capture.rows_of_file import CaptureRead


def ingest(
    warehouse: Warehouse,
    work: list[CaptureFile],
    front_end: FrontEnd = FrontEnd.AUTO,
) -> list[CaptureOutcome]:
    """Ingest capture files, except those that have not changed since they were ingested.

    An error of a file, or of a network, is in the outcomes of its files. It stops no other file.
    """
    files = list(dict.fromkeys(work))
    networks = {network.name: network for network, _ in files}
    refusals = _prepare_networks(warehouse, networks.values())
    plan = plan_ingest(
        [file for file in files if file[0].name not in refusals],
        lambda network, name: _intact_facts(warehouse, Unit("capture", network, name)),
        front_end,
    )
    outcomes: dict[CaptureFile, CaptureOutcome] = {}
    for file in files:
        if reason := refusals.get(file[0].name) or plan.errors.get(file):
            outcomes[file] = CaptureOutcome.of(file, CaptureFacts(error=reason))
            outcomes[file].network_refused = file[0].name in refusals
        elif facts := plan.unchanged.get(file):
            outcomes[file] = CaptureOutcome.of(file, facts)
            outcomes[file].unchanged = True
    # Captures first: if a packet log was made from a capture, the log is the one to reject.
    for are_logs in (False, True):
        chosen = [file for file in plan.to_read if has_log_name(file[1]) == are_logs]
        outcomes.update(zip(chosen, _ingest_changed(warehouse, chosen, front_end), strict=True))
    for file, outcome in outcomes.items():
        report_if_replaced(warehouse, outcome)
        outcome.notes += plan.notes.get(file, [])
    update_leases(
        warehouse, [network for name, network in networks.items() if name not in refusals]
    )
    warehouse.update_views()
    return [outcomes[file] for file in files if file in outcomes]


def _prepare_networks(warehouse: Warehouse, networks: Iterable[Network]) -> dict[str, str]:
    """Publish the networks' facts, and return the errors of networks that must not be ingested.

    The errors are by the network's name.
    """
    refusals = {}
    for network in networks:
        try:
            publish_network(warehouse, network)
            finish_replacing(warehouse, network.name)
            load_exclusions(warehouse, network.name)  # fails without the key
        except Exception as error:
            refusals[network.name] = in_a_line(error)
    return refusals


def _intact_facts(warehouse: Warehouse, unit: Unit) -> CaptureFacts | None:
    """Return the facts of a published capture; None if it is not published or files are missing."""
    published = warehouse.published(unit)
    return CaptureFacts.of(published) if published and warehouse.is_intact(published) else None


def _ingest_changed(
    warehouse: Warehouse, files: list[CaptureFile], front_end: FrontEnd
) -> list[CaptureOutcome]:
    """Read capture files, and publish each as soon as its task has read it."""
    if not files:
        return []
    if by_spark():  # its workers run in other folders
        files = [(network, path.absolute()) for network, path in files]
    outcomes: dict[CaptureFile, CaptureOutcome] = {}
    with warehouse.staging() as staging:

        def publish(file: CaptureFile, read: CaptureRead | Failure) -> None:
            if isinstance(read, Failure):
                from spark_jobs.capture.rows_of_file import CaptureRead

                error = f"{file[1]}: {read.reason}"
                read = CaptureRead(CaptureFacts(error=error))
            outcomes[file] = publish_capture(warehouse, staging, file, read)

        task = _ReadTask.of(warehouse, staging, [network for network, _ in files], front_end)
        run_tasks(task, files, "ingest", publish)
    return [outcomes[file] for file in files]


def ingest_capture(
    warehouse: Warehouse, network: Network, path: Path, front_end: FrontEnd = FrontEnd.AUTO
) -> CaptureOutcome:
    """Ingest one capture file into packets and ingest_log.

    Errors of the file are in the outcome. A file that does not exist leaves no row.
    """
    keys_with_secret(network)
    with warehouse.staging() as staging:
        task = _ReadTask.of(warehouse, staging, [network], front_end)
        return publish_capture(warehouse, staging, (network, path), task((network, path)))


@dataclass
class _ReadTask:
    """The task that reads one file.

    exclusions: by network name, the users and days to leave out
    """

    staging: Staging
    front_end: FrontEnd
    exclusions: dict[str, RemovalFilter]

    @classmethod
    def of(
        cls,
        warehouse: Warehouse,
        staging: Staging,
        networks: Iterable[Network],
        front_end: FrontEnd,
    ) -> _ReadTask:
        names = {network.name for network in networks}
        exclusions = {name: load_exclusions(warehouse, name) for name in names}
        return cls(staging, front_end, exclusions)

    def __call__(self, file: CaptureFile) -> CaptureRead:
        from spark_jobs.capture.rows_of_file import read_file

        return read_file(self.staging, file, self.front_end, self.exclusions[file[0].name])
