"""tcptrace's numbers of its published captures, beside ours."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from conftest import PUBLIC_CAPTURES

from schemas import PACKETS
from spark_jobs.ingest.job import ingest_capture
from spark_jobs.settings.networks import Network
from spark_jobs.tables.settings import Settings
from spark_jobs.tables.user_partition import UserPartition
from spark_jobs.users.packets import Span, read_packets
from spark_jobs.warehouse.row_groups import row_groups
from spark_jobs.warehouse.store import Warehouse

FOLDER = PUBLIC_CAPTURES / "tcptrace"


PUBLISHED = sorted(path for path in FOLDER.glob("*.dmp.gz") if Path(f"{path}.long").exists())


EVERYONE = Network(
    name="all",
    country="AA",
    access="lab",
    timezone="UTC",
    subscribers=("0.0.0.0/0",),
    pseudonyms="none",
    user_partitions=1,
)
"""Both ends of a connection are subscribers, so that each has a row, and `up` is what it sent."""


@dataclass(frozen=True)
class Difference:
    """A field of an end (see name_of) in which giscope and tcptrace differ: our value, and why."""

    end: str
    field: str
    ours: object
    why: str


def name_of(end: str, other: str, known: Iterable[str]) -> str:
    """Name an end in the first connection of these ends; in later ones with #2, #3, ..."""
    name = f"{end} > {other}"
    number = 1 + sum(one.partition(" #")[0] == name for one in known)
    return f"{name} #{number}" if number > 1 else name


def read_partition(path: Path, folder: Path) -> UserPartition | None:
    """Ingest a capture into a folder and read it as one user partition; None without a packet."""
    warehouse = Warehouse(folder)
    ingest_capture(warehouse, EVERYONE, path)
    files = warehouse.files(PACKETS)
    groups = [group for file in files for group in row_groups(file)]
    if not files:
        return None
    packets, names, _ = read_packets(groups, Span(0, 2**62, 0, 2**62))
    return UserPartition(packets, names, Settings.of(EVERYONE))
