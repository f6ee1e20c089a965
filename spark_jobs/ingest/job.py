"""The ingest job: it reads captures into packets, and logs of Zeek into packets or other tables.

One task reads one file. The job publishes each file's rows as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.base.errors import in_a_line
from spark_jobs.capture import FrontEnd
from spark_jobs.capture.removal_filter import RemovalFilter
from spark_jobs.engine.tasks import Failure, by_spark, run_tasks
from spark_jobs.ingest.exclusions import load_exclusions
from spark_jobs.ingest.files import CaptureFile
from spark_jobs.ingest.leases import update_leases
from spark_jobs.ingest.networks import keys_with_secret, publish_network
from spark_jobs.ingest.plan import capture_unit, inputs_hash, plan_ingest
from spark_jobs.ingest.publish import CaptureOutcome, CaptureRead, publish_capture
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse.facts import CaptureFacts
from spark_jobs.warehouse.staging import Staging
from spark_jobs.warehouse.steps import Step
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import PublishedUnit, Unit


def ingest(
    warehouse: Warehouse,
    work: list[CaptureFile],
    front_end: FrontEnd = FrontEnd.AUTO,
) -> list[CaptureOutcome]:
    """Ingest capture files, except those that have not changed since they were ingested.

    An error of a file, or of a network, is in the outcomes of its files. It stops no other file.
    """
    if by_spark():  # its workers run in other folders
        work = [(network, path.absolute()) for network, path in work]
    work = list(dict.fromkeys(work))
    networks = {network.name: network for network, _ in work}
    refusals = _prepare_networks(warehouse, networks.values())
    outcomes: dict[CaptureFile, CaptureOutcome] = {}
    for file in work:
        if reason := refusals.get(file[0].name):
            outcomes[file] = CaptureOutcome.of(file, CaptureFacts(error=reason))
            outcomes[file].network_refused = True
    plan = plan_ingest(file for file in work if file not in outcomes)
    for file, reason in plan.errors.items():
        outcomes[file] = CaptureOutcome.of(file, CaptureFacts(error=reason))
    files = {capture_unit(file): file for file in plan.files}

    def read(stale: dict[Unit, str]) -> None:
        chosen = {files[unit]: inputs for unit, inputs in stale.items()}
        outcomes.update(_read_and_publish(warehouse, chosen, front_end))

    inputs = {unit: inputs_hash(file, front_end) for unit, file in files.items()}
    Step(inputs, read).bring_up_to_date(warehouse)
    for unit, file in files.items():
        if file not in outcomes:
            published = warehouse.published(unit) or PublishedUnit(unit)
            outcomes[file] = CaptureOutcome.of(file, CaptureFacts.of(published))
            outcomes[file].unchanged = True
        outcomes[file].notes += plan.notes.get(file, [])
    usable = [network for network in networks.values() if network.name not in refusals]
    update_leases(warehouse, usable)
    warehouse.update_views()
    return [outcomes[file] for file in work if file in outcomes]


def _prepare_networks(warehouse: Warehouse, networks: Iterable[Network]) -> dict[str, str]:
    """Publish the networks' facts, and return the errors of networks that must not be ingested.

    The errors are by the network's name.
    """
    refusals = {}
    for network in networks:
        try:
            publish_network(warehouse, network)
            load_exclusions(warehouse, network.name)  # fails without the key
        except Exception as error:
            refusals[network.name] = in_a_line(error)
    return refusals


def _read_and_publish(
    warehouse: Warehouse, files: dict[CaptureFile, str], front_end: FrontEnd
) -> dict[CaptureFile, CaptureOutcome]:
    """Read capture files, and publish each as soon as its task has read it.

    files: the files with the hashes of their inputs
    """
    outcomes: dict[CaptureFile, CaptureOutcome] = {}
    with warehouse.staging() as staging:

        def publish(file: CaptureFile, read: CaptureRead | Failure) -> None:
            if isinstance(read, Failure):
                read = CaptureRead(CaptureFacts(error=f"{file[1]}: {read.reason}"))
            outcomes[file] = publish_capture(warehouse, staging, file, read, files[file])

        task = _ReadTask.of(warehouse, staging, [network for network, _ in files], front_end)
        run_tasks(task, [*files], "ingest", publish)
    return outcomes


def ingest_capture(
    warehouse: Warehouse, network: Network, path: Path, front_end: FrontEnd = FrontEnd.AUTO
) -> CaptureOutcome:
    """Ingest one capture file into packets and ingest_log.

    Errors of the file are in the outcome. A file that does not exist leaves no row.
    """
    keys_with_secret(network)
    file = network, path
    with warehouse.staging() as staging:
        task = _ReadTask.of(warehouse, staging, [network], front_end)
        inputs = inputs_hash(file, front_end)
        return publish_capture(warehouse, staging, file, task(file), inputs)


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
        from spark_jobs.ingest.read import read_file

        return read_file(self.staging, file, self.front_end, self.exclusions[file[0].name])
