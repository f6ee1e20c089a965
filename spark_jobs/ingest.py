"""Capture files to the packets table: one task a file, each published whole."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemas import INGEST_LOG, NETWORKS, PACKETS
from spark_jobs.capture.addresses import subscriber_prefixes
from spark_jobs.capture.columns import packet_tables, within_dates
from spark_jobs.capture.front_end import READERS, FrontEnd, chosen_front_end
from spark_jobs.capture.reader import Reading, Run
from spark_jobs.capture.users import user_key
from spark_jobs.errors import UserError
from spark_jobs.networks import Network
from spark_jobs.session import run_tasks
from spark_jobs.warehouse import Staging, Unit, Warehouse

COMPRESSION_SUFFIXES = (".gz", ".zst", ".zstd")
CAPTURES = "*.pcap*"
MOST_DATES = 400
FORMAT = 1
"""Raised when packets of the same capture would come out otherwise than before."""


@dataclass
class Ingested:
    """What became of one capture file: a row of ingest_log, and the dates it touched."""

    network: str
    capture: str
    path: Path
    frames: int = 0
    packets: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    size: int = 0
    seconds: float = 0.0
    first_us: int | None = None
    last_us: int | None = None
    content: str = ""
    error: str | None = None
    already: bool = False
    dates: list[date] = field(default_factory=list)
    front_end: FrontEnd = FrontEnd.BUILTIN
    notes: list[str] = field(default_factory=list)


def ingest(
    warehouse: Warehouse,
    work: list[tuple[Network, Path]],
    front_end: FrontEnd = FrontEnd.AUTO,
) -> list[Ingested]:
    """Ingest capture files, skipping those that have not changed since they were ingested."""
    names: dict[tuple[str, str], Path] = {}
    for network, path in work:
        other = names.setdefault((network.name, capture_name(path)), path)
        if other != path:
            raise UserError(f"{path}: has the same capture name as {other}")
    for network in {network.name: network for network, _ in work}.values():
        publish_network(warehouse, network)
    known = [_if_unchanged(warehouse, *item) for item in work]
    changed = [item for item, result in zip(work, known, strict=True) if result is None]
    fresh = iter(run_tasks(_IngestTask(warehouse, front_end), changed, "ingest"))
    return [result or next(fresh) for result in known]


def capture_name(path: Path) -> str:
    """A capture's name: the file's, but for how it is compressed, behind its folder's where that
    is a day: the same file name may come every day."""
    name = path.stem if path.suffix in COMPRESSION_SUFFIXES else path.name
    folder = path.absolute().parent.name
    return f"{folder}/{name}" if _day(folder) else name


def capture_day(capture: str) -> date | None:
    """The day whose folder the capture lay in, if any."""
    return _day(capture.partition("/")[0])


def _day(name: str) -> date | None:
    try:
        return datetime.strptime(name, "%Y-%m-%d").date()
    except ValueError:
        return None


def captures_in(folder: Path) -> list[Path]:
    """The capture files of a folder."""
    return [path for path in sorted(folder.glob(CAPTURES)) if path.is_file()]


@dataclass
class _IngestTask:
    warehouse: Warehouse
    front_end: FrontEnd

    def __call__(self, item: tuple[Network, Path]) -> Ingested:
        return ingest_capture(self.warehouse, *item, self.front_end)


def ingest_capture(
    warehouse: Warehouse, network: Network, path: Path, front_end: FrontEnd = FrontEnd.AUTO
) -> Ingested:
    """One capture file into packets and ingest_log. Errors of the file are in the result."""
    started = time.monotonic()
    unit = Unit("capture", network.name, capture_name(path))
    old = warehouse.commit(unit)
    result = Ingested(network.name, unit.name, path)
    try:
        stamp = _stamp(path, network)
        with warehouse.staging() as staging:
            result.front_end = chosen_front_end(front_end, path)
            _read_into(staging, network, path, result)
            result.seconds = time.monotonic() - started
            with warehouse.locked(f"content-{network.name}"):
                _refuse_copy(warehouse, network, result)
                _publish(warehouse, unit, staging, result, stamp)
    except (UserError, OSError) as error:
        result.error = str(error)
        result.packets, result.dates = 0, []
        if not (old and old.files):
            with warehouse.staging() as staging:
                _publish(warehouse, unit, staging, result, None)
    if old and not result.error:
        before = {date.fromisoformat(day) for day in old.facts["dates"]}
        result.dates = sorted(before | set(result.dates))
    return result


def _stamp(path: Path, network: Network) -> list[Any]:
    """What tells whether a file must be read again."""
    status = path.stat()
    settings = f"{FORMAT} {network.subscribers} {network.buckets}"
    return [status.st_size, status.st_mtime_ns, blake2b(settings.encode()).hexdigest()[:16]]


def _if_unchanged(warehouse: Warehouse, network: Network, path: Path) -> Ingested | None:
    """What is known of a file that has been ingested as it is, else None."""
    name = capture_name(path)
    old = warehouse.commit(Unit("capture", network.name, name))
    try:
        if not old or old.facts["stamp"] != _stamp(path, network):
            return None
    except OSError:
        return None
    facts = old.facts
    return Ingested(
        network.name, name, path, facts["frames"], facts["packets"], facts["skipped"], already=True
    )


def _read_into(staging: Staging, network: Network, path: Path, result: Ingested) -> None:
    prefixes = subscriber_prefixes(network.subscribers)
    reading = Reading()
    result.size = path.stat().st_size
    with ExitStack() as stack:
        writers: dict[date, pq.ParquetWriter] = {}
        read = READERS[result.front_end]
        for day, table in _tables(read(path, prefixes, reading), network, result.capture, reading):
            if day not in writers:
                writers[day] = stack.enter_context(
                    staging.writer(PACKETS, network.name, day, result.capture)
                )
            writers[day].write_table(table, row_group_size=len(table))
            _count(result, table)
    result.frames, result.skipped = reading.frames, dict(sorted(reading.skipped.items()))
    result.content, result.dates = reading.content, sorted(writers)
    result.notes = reading.notes
    if not result.packets:
        reasons = ", ".join(f"{count} {why}" for why, count in result.skipped.items())
        raise UserError(
            f"{path}: no packet of a subscriber of {network.name} in it"
            + (f" ({reasons})" if reasons else "")
        )


def _tables(
    runs: Iterator[Run], network: Network, capture: str, reading: Reading
) -> Iterator[tuple[date, pa.Table]]:
    days: set[int] = set()
    for run in runs:
        kept, others = within_dates(run, days, MOST_DATES)
        if others:
            reading.skipped["implausible_time"] += others
        if len(kept.rows):
            yield from packet_tables(kept, capture, network.buckets, user_key)


def _count(result: Ingested, table: pa.Table) -> None:
    result.packets += len(table)
    low, high = pc.min_max(table["ts"].cast(pa.int64())).values()
    result.first_us = min(v for v in (result.first_us, low.as_py()) if v is not None)
    result.last_us = max(v for v in (result.last_us, high.as_py()) if v is not None)


def _refuse_copy(warehouse: Warehouse, network: Network, result: Ingested) -> None:
    for commit in warehouse.commits("capture", network.name):
        same = commit.facts.get("content") == result.content
        if same and commit.unit.name != result.capture and commit.facts["packets"]:
            raise UserError(
                f"{result.path}: holds the same packets as {commit.unit.name}, "
                "which is ingested already"
            )


def _publish(
    warehouse: Warehouse, unit: Unit, staging: Staging, result: Ingested, stamp: list[Any] | None
) -> None:
    first, last = _time(result.first_us), _time(result.last_us)
    log = {
        "capture": result.capture,
        "front_end": str(result.front_end),
        "frames": result.frames,
        "packets": result.packets,
        "skipped": list(result.skipped.items()),
        "bytes": result.size,
        "seconds": result.seconds,
        "first_ts": first,
        "last_ts": last,
        "content": result.content,
        "error": result.error,
    }
    rows = pa.Table.from_pylist([log], schema=INGEST_LOG.arrow)
    day = first.date() if first else capture_day(unit.name)
    staging.write(INGEST_LOG, unit.network, day, unit.name, rows)
    facts = {
        "stamp": stamp,
        "content": result.content,
        "frames": result.frames,
        "packets": result.packets,
        "skipped": result.skipped,
        "dates": [day.isoformat() for day in result.dates],
    }
    warehouse.publish(unit, staging.files, facts)


def _time(us: int | None) -> datetime | None:
    return (
        None
        if us is None
        else datetime.fromtimestamp(us // 1_000_000, UTC).replace(microsecond=us % 1_000_000)
    )


def publish_network(warehouse: Warehouse, network: Network) -> None:
    """The network's facts into the networks table, where they changed."""
    facts = {
        "country": network.country,
        "access": network.access,
        "timezone": network.timezone,
        "peak_from": network.peak_hours[0],
        "peak_until": network.peak_hours[1],
        "off_peak_from": network.off_peak_hours[0],
        "off_peak_until": network.off_peak_hours[1],
        "flight_size_bytes": network.flight_size_bytes,
        "slot_rate": network.slot_rate,
    }
    unit = Unit("network", network.name)
    old = warehouse.commit(unit)
    if old and old.facts == facts:
        return
    with warehouse.staging() as staging:
        rows = pa.Table.from_pylist([facts], schema=NETWORKS.arrow)
        staging.write(NETWORKS, network.name, None, network.name, rows)
        warehouse.publish(unit, staging.files, facts)
