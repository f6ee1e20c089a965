"""Capture files to the packets table, logs of Zeek to it or its neighbours: one task a file, each
published whole."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from schemas import INGEST_LOG, NETWORKS, PACKETS, Table
from schemas.zeek import PACKET_LOG
from spark_jobs.capture import FrontEnd
from spark_jobs.capture.files import capture_day, capture_name, has_log_name
from spark_jobs.capture.users import user_key
from spark_jobs.engine.tasks import run_tasks
from spark_jobs.errors import UserError
from spark_jobs.jobs.leases import leases
from spark_jobs.networks import Network
from spark_jobs.warehouse import Staging, Unit, Warehouse
from spark_jobs.warehouse.views import duckdb_paths

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from spark_jobs.capture.reader import Reading, Run

SAMPLE_ROWS = 64
"""Packets of each piece of a file that are looked for in other files."""
SAMPLE_COLUMNS = ["ts", "user", "server", "downlink", "ip_len"]
MOST_DATES = 400
FORMAT = {FrontEnd.BUILTIN: 4, FrontEnd.ZEEK: 4, FrontEnd.ZEEK_LOG: 4}
"""Raised when rows of the same file would come out otherwise than before."""


@dataclass
class Ingested:
    """What became of one capture file: a row of ingest_log, and the dates it touched."""

    network: str
    capture: str
    path: Path
    frames: int = 0
    packets: int = 0
    rows: int = 0
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
    results = {item: _if_unchanged(warehouse, *item, front_end) for item in work}
    changed = [item for item, result in results.items() if result is None]
    logs = {item for item in changed if has_log_name(item[1])}
    # Captures first: where a packet log was made of one, it is always the log that is refused.
    for items in ([i for i in changed if i not in logs], [i for i in changed if i in logs]):
        fresh = run_tasks(_IngestTask(warehouse, front_end), items, "ingest")
        results.update(zip(items, fresh, strict=True))
    leases(warehouse, sorted({network.name for network, _ in work}))
    warehouse.update_views()
    return [result for result in results.values() if result]


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
    from spark_jobs.capture.front_end import chosen_front_end

    started = time.monotonic()
    unit = Unit("capture", network.name, capture_name(path))
    old = warehouse.commit(unit)
    result = Ingested(network.name, unit.name, path)
    try:
        result.front_end = chosen_front_end(front_end, path)
        stamp = _stamp(path, network, result.front_end)
        with warehouse.staging() as staging:
            sample = _read_into(staging, network, path, result)
            result.seconds = time.monotonic() - started
            with warehouse.locked(f"content-{network.name}"):
                _refuse_copy(warehouse, network, result)
                _refuse_log_of_capture(warehouse, network, result, sample)
                _publish(warehouse, unit, staging, result, stamp)
    except (UserError, OSError) as error:
        result.error = str(error)
        result.packets, result.rows, result.dates = 0, 0, []
        if not (old and old.files):
            with warehouse.staging() as staging:
                _publish(warehouse, unit, staging, result, None)
    if old and not result.error:
        before = {date.fromisoformat(day) for day in old.facts["dates"]}
        result.dates = sorted(before | set(result.dates))
    return result


def _stamp(path: Path, network: Network, front_end: FrontEnd) -> list[Any]:
    """What tells whether a file must be read again."""
    status = path.stat()
    settings = f"{FORMAT[front_end]} {network.subscribers} {network.buckets} {front_end}"
    return [status.st_size, status.st_mtime_ns, blake2b(settings.encode()).hexdigest()[:16]]


def _if_unchanged(
    warehouse: Warehouse, network: Network, path: Path, front_end: FrontEnd
) -> Ingested | None:
    """What is known of a file that has been ingested as it is, else None."""
    name = capture_name(path)
    old = warehouse.commit(Unit("capture", network.name, name))
    try:
        if not old:
            return None
        was_log = old.facts.get("front_end") == FrontEnd.ZEEK_LOG
        of_auto = FrontEnd.ZEEK_LOG if was_log else FrontEnd.BUILTIN
        chosen = of_auto if front_end == FrontEnd.AUTO else front_end
        if old.facts["stamp"] != _stamp(path, network, chosen):
            return None
    except OSError:
        return None
    facts = old.facts
    return Ingested(
        network.name,
        name,
        path,
        facts["frames"],
        facts["packets"],
        facts["rows"],
        facts["skipped"],
        front_end=chosen,
        already=True,
    )


def _read_into(staging: Staging, network: Network, path: Path, result: Ingested) -> pa.Table:
    """The file's rows into staging; returns some of its packets (see _refuse_log_of_capture)."""
    from spark_jobs.capture.reader import Reading

    reading = Reading()
    result.size = path.stat().st_size
    samples = []
    with ExitStack() as stack:
        writers: dict[date, pq.ParquetWriter] = {}
        table, parts = _parts(network, path, result, reading)
        for day, rows in parts:
            if day not in writers:
                writers[day] = stack.enter_context(
                    staging.writer(table, network.name, day, result.capture)
                )
            writers[day].write_table(rows, row_group_size=len(rows))
            _count(result, rows)
            if table is PACKETS:
                samples.append(rows.select(SAMPLE_COLUMNS)[:: -(-len(rows) // SAMPLE_ROWS)])
    result.frames, result.skipped = reading.frames, dict(sorted(reading.skipped.items()))
    result.content, result.notes = reading.content, reading.notes
    if reading.counted_us:
        result.first_us, result.last_us = reading.counted_us
    if table is PACKETS:
        result.packets, result.dates = result.rows, sorted(writers)
    quiet = result.front_end == FrontEnd.ZEEK_LOG and not (reading.frames or result.skipped)
    if not result.rows and not quiet and (table is PACKETS or result.skipped.get("malformed_line")):
        reasons = ", ".join(f"{count} {why}" for why, count in result.skipped.items())
        raise UserError(
            f"{path}: no packet of a subscriber of {network.name} in it"
            + (f" ({reasons})" if reasons else "")
        )
    return pa.concat_tables(samples) if samples else PACKETS.arrow.empty_table()


def _parts(
    network: Network, path: Path, result: Ingested, reading: Reading
) -> tuple[Table, Iterator[tuple[date, pa.Table]]]:
    """The table that a file's rows belong to, and the rows, one Arrow table a bucket and day."""
    from spark_jobs.capture.addresses import subscriber_prefixes
    from spark_jobs.capture.duplicates import without_duplicates
    from spark_jobs.capture.front_end import READERS
    from spark_jobs.capture.zeek_lines import log_kind

    prefixes = subscriber_prefixes(network.subscribers)
    log = log_kind(path) if result.front_end == FrontEnd.ZEEK_LOG else None
    if log and log is not PACKET_LOG:
        from spark_jobs.capture.site_logs import TABLES, read_site_log

        rows = read_site_log(path, log, prefixes, reading, result.capture, network.buckets)
        return TABLES[log.path], _by_bucket_and_day(rows, reading)
    runs = READERS[result.front_end](path, prefixes, reading)
    return PACKETS, _tables(without_duplicates(runs, reading), network, result.capture, reading)


def _by_bucket_and_day(
    tables: Iterator[pa.Table], reading: Reading
) -> Iterator[tuple[date, pa.Table]]:
    """Rows in pieces of some million, each sorted and cut."""
    from spark_jobs.capture.reader import RUN_PACKETS

    held: list[pa.Table] = []
    days: set[int] = set()
    for table in filter(len, tables):
        held.append(table)
        if sum(map(len, held)) >= RUN_PACKETS:
            yield from _cut(pa.concat_tables(held), days, reading)
            held = []
    if held:
        yield from _cut(pa.concat_tables(held), days, reading)


def _cut(rows: pa.Table, days: set[int], reading: Reading) -> Iterator[tuple[date, pa.Table]]:
    import numpy as np

    from spark_jobs.capture.columns import DAY_US, EPOCH

    rows = rows.unify_dictionaries().sort_by([("bucket", "ascending"), ("ts", "ascending")])
    day = rows["ts"].cast(pa.int64()).to_numpy() // DAY_US
    bucket = rows["bucket"].fill_null(-1).to_numpy()
    new = np.setdiff1d(day, list(days))
    days.update(new[: MOST_DATES - len(days)].tolist())
    starts = np.flatnonzero((np.diff(day, prepend=-1) != 0) | (np.diff(bucket, prepend=-2) != 0))
    for low, high in zip(starts, [*starts[1:], len(rows)], strict=True):
        if int(day[low]) in days:
            yield EPOCH + timedelta(days=int(day[low])), rows.slice(low, high - low)
        else:
            reading.skipped["implausible_time"] += int(high - low)


def _tables(
    runs: Iterator[Run], network: Network, capture: str, reading: Reading
) -> Iterator[tuple[date, pa.Table]]:
    from spark_jobs.capture.columns import packet_tables, within_dates

    days: set[int] = set()
    for run in runs:
        kept, others = within_dates(run, days, MOST_DATES)
        if others:
            reading.skipped["implausible_time"] += others
        if len(kept.rows):
            yield from packet_tables(kept, capture, network.buckets, user_key)


def _count(result: Ingested, table: pa.Table) -> None:
    import pyarrow.compute as pc

    result.rows += len(table)
    low, high = pc.min_max(table["ts"].cast(pa.int64())).values()
    result.first_us = min(v for v in (result.first_us, low.as_py()) if v is not None)
    result.last_us = max(v for v in (result.last_us, high.as_py()) if v is not None)


def _refuse_copy(warehouse: Warehouse, network: Network, result: Ingested) -> None:
    for commit in warehouse.commits("capture", network.name):
        same = commit.facts.get("content") == result.content
        gave = commit.facts.get("rows", commit.facts["packets"])
        if same and commit.unit.name != result.capture and gave:
            raise UserError(
                f"{result.path}: holds the same packets as {commit.unit.name}, "
                "which is ingested already"
            )


def _refuse_log_of_capture(
    warehouse: Warehouse, network: Network, result: Ingested, sample: pa.Table
) -> None:
    """A capture and a packet log that Zeek made of the same packets must not both count."""
    import duckdb

    is_log = result.front_end == FrontEnd.ZEEK_LOG
    for commit in warehouse.commits("capture", network.name):
        facts = commit.facts
        if commit.unit.name == result.capture or not facts["packets"] or not len(sample):
            continue
        if "front_end" not in facts or is_log == (facts["front_end"] == FrontEnd.ZEEK_LOG):
            continue
        if facts["first_us"] > (result.last_us or 0) or (result.first_us or 0) > facts["last_us"]:
            continue
        with duckdb.connect() as connection:
            connection.register("sample", sample)
            (shared,) = connection.execute(
                "select count(*) from read_parquet(?, hive_partitioning = false) "
                f"semi join sample using ({', '.join(SAMPLE_COLUMNS)})",
                [duckdb_paths(warehouse.unit_files(commit, PACKETS))],
            ).fetchone() or (0,)
        if shared:
            raise UserError(
                f"{result.path}: holds packets of {commit.unit.name}, which is ingested already; "
                "a capture and a log of the same packets would count them twice"
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
        "rows": result.rows,
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
        "rows": result.rows,
        "skipped": result.skipped,
        "front_end": str(result.front_end),
        "first_us": result.first_us,
        "last_us": result.last_us,
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
