"""Capture files to the packets table, logs of Zeek to it or its neighbours: one task a file, each
published whole."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from schemas import INGEST_LOG, NETWORKS, PACKETS, Table
from schemas.zeek import PACKET_LOG
from spark_jobs.capture import FrontEnd
from spark_jobs.capture.files import (
    capture_day,
    capture_name,
    has_log_name,
    without_compression,
)
from spark_jobs.capture.removal_filter import REMOVED_REASON, RemovalFilter
from spark_jobs.capture.untrusted import parser
from spark_jobs.capture.users import (
    PLAIN,
    UserKeys,
    has_secret,
    key_content_hash,
    make_secret,
    secret,
    user_keys,
)
from spark_jobs.engine.tasks import by_spark, run_tasks
from spark_jobs.errors import UserError, in_a_line
from spark_jobs.jobs.copies import CopyError, Packets, captures_replaced
from spark_jobs.jobs.forgotten import key_what_was_removed, removed_of
from spark_jobs.jobs.leases import leases
from spark_jobs.networks import Network
from spark_jobs.places import NOT_REGULAR, is_irregular
from spark_jobs.warehouse import PublishedUnit, Staging, Unit, Warehouse, Written

if TYPE_CHECKING:
    import numpy as np

    from spark_jobs.capture.reader import PacketBatch, ReadStats
    from spark_jobs.warehouse.files import TableWriter

MOST_DATES = 400
FORMAT = {FrontEnd.BUILTIN: 9, FrontEnd.ZEEK: 9, FrontEnd.ZEEK_LOG: 9}
"""Raised when rows of the same file would come out otherwise than before."""


Item = tuple[Network, Path]
"""A capture file, and the network it is of."""


@dataclass
class Ingested:
    """What became of one capture file: a row of ingest_log, and the dates it touched."""

    network: str
    capture: str
    path: Path
    frames: int = 0
    packets: int = 0
    rows: int = 0
    values: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    size: int = 0
    seconds: float = 0.0
    first_us: int | None = None
    last_us: int | None = None
    content: str = ""
    error: str | None = None
    duplicate_of: str | None = None
    already: bool = False
    replaces: dict[str, str] = field(default_factory=dict)
    """Content by name of the captures whose packets it has: they count here."""
    dates: list[date] = field(default_factory=list)
    front_end: FrontEnd = FrontEnd.BUILTIN
    notes: list[str] = field(default_factory=list)
    of_network: bool = False
    """The error is the network's: nothing of it was ingested."""


@dataclass
class Read:
    """What a capture file gave: what is known of it, files of its rows, and of its packets a sample
    (see capture/packet_sample.py); stamp: tells later whether it must be read again, None where it could
    not be read."""

    result: Ingested
    files: list[Written] = field(default_factory=list)
    sample: np.ndarray | None = None
    stamp: list[Any] | None = None


def ingest(
    warehouse: Warehouse,
    work: list[Item],
    front_end: FrontEnd = FrontEnd.AUTO,
) -> list[Ingested]:
    """Ingest capture files, skipping those that have not changed since they were ingested. What is
    wrong with a file, or with a network, is in the results of its files, and stops no other."""
    refused = _prepare(warehouse, list({network.name: network for network, _ in work}.values()))
    results: dict[Item, Ingested | None] = {}
    for item in work:
        if why := refused.get(item[0].name):
            results[item] = _failed(item, why, of_network=True)
        else:
            results[item] = _if_unchanged(warehouse, *item, front_end)
    notes = _leave_out(results)
    for item in [item for item, result in results.items() if result is None]:
        # Here: a pipe of the shell is not there for the processes that read files.
        with suppress(OSError):
            if is_irregular(item[1]):
                results[item] = _failed(item, f"{item[1]}: {NOT_REGULAR}")
    changed = [item for item, result in results.items() if result is None]
    logs = {item for item in changed if has_log_name(item[1])}
    # Captures first: where a packet log was made of one, it is always the log that is refused.
    for items in ([i for i in changed if i not in logs], [i for i in changed if i in logs]):
        results.update(zip(items, _ingest(warehouse, items, front_end), strict=True))
    for item, result in results.items():
        assert result is not None
        _tell_if_replaced(warehouse, result)
        result.notes += notes.get(item, [])
    networks = {network.name: network for network, _ in work if network.name not in refused}
    leases(warehouse, list(networks.values()))
    warehouse.update_views()
    return [result for result in results.values() if result]


def _prepare(warehouse: Warehouse, networks: list[Network]) -> dict[str, str]:
    """Publish the networks' facts; returns why, by name, for those of which nothing may be
    ingested."""
    refused = {}
    for network in networks:
        try:
            publish_network(warehouse, network)
            _finish_replacing(warehouse, network)
            with warehouse.locked(f"content-{network.name}"):
                key_what_was_removed(warehouse, network.name)
            removed_of(warehouse, network.name)  # which asks for the key
        except (UserError, OSError) as error:
            refused[network.name] = in_a_line(error)
    return refused


def _failed(item: Item, why: str, of_network: bool = False) -> Ingested:
    network, path = item
    return Ingested(network.name, capture_name(path), path, error=why, of_network=of_network)


def _leave_out(results: dict[Item, Ingested | None]) -> dict[Item, list[str]]:
    """Of several files of one capture's name leave one: the others fail where they hold something
    else, or go. Returns notes on those that go, by the one that is left."""
    named: dict[tuple[str, str], list[Item]] = {}
    for item in results:
        named.setdefault((item[0].name, capture_name(item[1])), []).append(item)
    notes: dict[Item, list[str]] = {}
    several = [items for items in named.values() if len(items) > 1]
    if several:
        from spark_jobs.capture.capture_variants import choose_file
    for items in several:
        if any(result and result.error for result in map(results.get, items)):
            continue
        ingested = next((item for item in items if results[item]), None)
        network, first = ingested or items[0]
        place = without_compression(first)
        paths = [path for _, path in items if without_compression(path) == place]
        choice = choose_file(paths, ingested[1] if ingested else None)
        notes[network, choice.chosen] = choice.notes
        for item in items:
            path = item[1]
            if path not in paths:
                why = f"{path}: has the same capture name as {choice.chosen}: rename one"
                results[item] = _failed(item, why)
            elif path in choice.errors:
                results[item] = _failed(item, choice.errors[path])
            elif path != choice.chosen:
                del results[item]
    return notes


def _ingest(warehouse: Warehouse, items: list[Item], front_end: FrontEnd) -> list[Ingested]:
    """What becomes of capture files, each published here as soon as a task has read it."""
    if not items:
        return []
    if by_spark():  # whose workers are in other folders
        items = [(network, path.absolute()) for network, path in items]
    with warehouse.staging() as staging:

        def publish(_: Item, read: Read) -> None:
            _publish_read(warehouse, staging, read)

        task = _ReadTask(staging, front_end, _removed(warehouse, [n for n, _ in items]))
        reads = run_tasks(task, items, "ingest", publish)
    return [read.result for read in reads]


def ingest_capture(
    warehouse: Warehouse, network: Network, path: Path, front_end: FrontEnd = FrontEnd.AUTO
) -> Ingested:
    """One capture file into packets and ingest_log. Errors of the file are in the result; one that
    is not there leaves no row."""
    _keys_here(network)
    with warehouse.staging() as staging:
        task = _ReadTask(staging, front_end, _removed(warehouse, [network]))
        read = task((network, path))
        _publish_read(warehouse, staging, read)
    return read.result


def _removed(warehouse: Warehouse, networks: list[Network]) -> dict[str, RemovalFilter]:
    """By network, what is left out."""
    return {name: removed_of(warehouse, name) for name in {network.name for network in networks}}


@dataclass
class _ReadTask:
    staging: Staging
    front_end: FrontEnd
    removed: dict[str, RemovalFilter]

    def __call__(self, item: Item) -> Read:
        from spark_jobs.capture.front_end import choose_front_end

        started = time.monotonic()
        network, path = item
        read = Read(Ingested(network.name, capture_name(path), path))
        try:
            with self.staging.part() as part:
                read.result.front_end = choose_front_end(self.front_end, path)
                read.stamp = _stamp(path, network, read.result.front_end)
                removed = self.removed[network.name]
                read.sample = _read_into(part, network, path, read.result, removed)
                read.files = part.files
        except (UserError, OSError) as error:
            read.result.error = in_a_line(error)
        read.result.seconds = time.monotonic() - started
        return read


def _publish_read(warehouse: Warehouse, staging: Staging, read: Read) -> None:
    """Publish what a capture gave, or that it gave nothing and why."""
    result = read.result
    unit = Unit("capture", result.network, result.capture)
    old = warehouse.published(unit)
    replaced: list[PublishedUnit] = []
    try:
        if not result.error:
            replaced = _publish_rows(warehouse, staging, unit, read)
    except (UserError, OSError) as error:
        result.error = in_a_line(error)
        result.duplicate_of = error.of if isinstance(error, CopyError) else None
    if result.error:
        warehouse.remove_staged(read.files)
        result.packets, result.rows, result.values, result.dates = 0, 0, 0, []
        if result.path.exists() and not (old and old.files):
            _publish(warehouse, staging, unit, Read(result))
        return
    before = {day for c in [old, *replaced] if c for day in c.facts["dates"]}
    result.dates = sorted({*map(date.fromisoformat, before), *result.dates})
    result.notes += [
        f"{result.path}: takes the place of {name}, whose packets it has"
        for name in result.replaces
    ]


def _publish_rows(
    warehouse: Warehouse, staging: Staging, unit: Unit, read: Read
) -> list[PublishedUnit]:
    """Publish a capture's rows; returns the captures whose place it takes."""
    with warehouse.locked(f"content-{unit.network}"):
        others = [c for c in warehouse.published_units("capture", unit.network) if c.unit != unit]
        _refuse_same(others, read.result)
        assert read.sample is not None
        paths = [file.staged.path for file in read.files if file.belongs_to(PACKETS)]
        new = Packets(unit.name, _facts(read), paths, read.sample)
        replaced = captures_replaced(warehouse, others, read.result.path, new)
        read.result.replaces = {c.unit.name: c.facts["content"] for c in replaced}
        _publish(warehouse, staging, unit, read)
        for commit in replaced:
            _give_way(warehouse, commit, unit.name)
    return replaced


def _stamp(path: Path, network: Network, front_end: FrontEnd) -> list[Any]:
    """What tells whether a file must be read again."""
    status, keys = path.stat(), user_keys(network)
    others = [
        (other.name, other.subscribers, of_other.key_scheme)
        for other, of_other in zip(network.others, keys.other_networks, strict=True)
    ]
    settings = (
        f"{FORMAT[front_end]} {network.subscribers} {network.user_partitions} {front_end} "
        f"{keys.key_scheme} {network.servers} {network.nat64} {others}"
    )
    hashed = blake2b(keys.hash_text(settings).encode()).hexdigest()[:16]
    return [status.st_size, status.st_mtime_ns, hashed]


def _if_unchanged(
    warehouse: Warehouse, network: Network, path: Path, front_end: FrontEnd
) -> Ingested | None:
    """What is known of a file that has been ingested as it is, else None."""
    name = capture_name(path)
    old = warehouse.published(Unit("capture", network.name, name))
    try:
        if not old or not warehouse.is_intact(old):
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


def _read_into(
    staging: Staging, network: Network, path: Path, result: Ingested, removed: RemovalFilter
) -> np.ndarray:
    """The file's rows into staging; returns its sample (see capture/packet_sample.py)."""
    import numpy as np

    from spark_jobs.capture.packet_sample import make_sample
    from spark_jobs.capture.reader import ReadStats

    reading = ReadStats()
    out: list[np.ndarray] = []
    result.size = path.stat().st_size
    with ExitStack() as stack:
        writers: dict[date, TableWriter] = {}
        table, parts = _parts(network, path, result, reading)
        for day, found in _parsed(path, parts):
            rows = removed.apply(table, day, found)
            if len(rows) < len(found):
                reading.skipped[REMOVED_REASON] += len(found) - len(rows)
                if table is PACKETS:
                    out.append(_keys_without(found, rows))
            if not len(rows):
                continue
            if day not in writers:
                writers[day] = stack.enter_context(
                    staging.writer(table, network.name, day, result.capture)
                )
            writers[day].write_table(rows, row_group_size=len(rows))
            _count(result, rows)
    result.frames, result.skipped = reading.frames, dict(sorted(reading.skipped.items()))
    result.content, result.notes = user_keys(network).hash_text(reading.content_hash), reading.notes
    if reading.counted_span_us:
        result.first_us, result.last_us = reading.counted_span_us
    if table is PACKETS:
        result.packets, result.dates = result.rows, sorted(writers)
    quiet = result.front_end == FrontEnd.ZEEK_LOG and not (reading.frames or result.skipped)
    quiet = quiet or bool(result.skipped.get(REMOVED_REASON))
    if not result.rows and not quiet and (table is PACKETS or result.skipped.get("malformed_line")):
        reasons = ", ".join(f"{count} {why}" for why, count in result.skipped.items())
        raise UserError(
            f"{path}: no packet of a subscriber of {network.name} in it"
            + (f" ({reasons})" if reasons else "")
        )
    return np.setdiff1d(
        make_sample(reading.sample_keys), np.concatenate([np.empty(0, np.uint64), *out])
    )


@parser
def _parsed(path: Path, parts: Iterator[tuple[date, pa.Table]]) -> Iterator[tuple[date, pa.Table]]:
    """The same, whose errors are the file's."""
    yield from parts


def _keys_without(rows: pa.Table, kept: pa.Table) -> np.ndarray:
    """The keys of the packets that are not kept (see capture/packet_sample.py)."""
    import numpy as np

    from spark_jobs.capture.packet_sample import packet_keys

    return np.setdiff1d(packet_keys(rows), packet_keys(kept))


def _parts(
    network: Network, path: Path, result: Ingested, reading: ReadStats
) -> tuple[Table, Iterator[tuple[date, pa.Table]]]:
    """The table that a file's rows belong to, and the rows, one Arrow table a bucket and day."""
    from spark_jobs.capture.addresses import subscriber_prefixes
    from spark_jobs.capture.clock import correct_clock_steps
    from spark_jobs.capture.duplicates import drop_duplicates
    from spark_jobs.capture.fragments import join_fragments
    from spark_jobs.capture.front_end import READERS
    from spark_jobs.capture.zeek_lines import log_kind

    prefixes, keys = subscriber_prefixes(network.subscribers), user_keys(network)
    log = log_kind(path) if result.front_end == FrontEnd.ZEEK_LOG else None
    if log and log is not PACKET_LOG:
        from spark_jobs.capture.operator_logs import TABLE_BY_LOG, read_operator_log

        rows = read_operator_log(
            path, log, prefixes, reading, result.capture, network.user_partitions, keys
        )
        return TABLE_BY_LOG[log.path], _by_partition_and_day(rows, reading)
    runs = READERS[result.front_end](path, prefixes, reading)
    for step in (correct_clock_steps, drop_duplicates, join_fragments):
        runs = step(runs, reading)
    return PACKETS, _tables(runs, network.user_partitions, keys, result.capture, reading)


def _by_partition_and_day(
    tables: Iterator[pa.Table], reading: ReadStats
) -> Iterator[tuple[date, pa.Table]]:
    """Rows in pieces of some million, each sorted and cut."""
    from spark_jobs.capture.reader import BATCH_PACKETS

    held: list[pa.Table] = []
    days: set[int] = set()
    for table in filter(len, tables):
        held.append(table)
        if sum(map(len, held)) >= BATCH_PACKETS:
            yield from _cut(pa.concat_tables(held), days, reading)
            held = []
    if held:
        yield from _cut(pa.concat_tables(held), days, reading)


def _cut(rows: pa.Table, days: set[int], reading: ReadStats) -> Iterator[tuple[date, pa.Table]]:
    import numpy as np

    from spark_jobs.capture.columns import DAY_US, EPOCH

    rows = rows.unify_dictionaries().sort_by([("user_partition", "ascending"), ("ts", "ascending")])
    day = rows["ts"].cast(pa.int64()).to_numpy() // DAY_US
    partition = rows["user_partition"].fill_null(-1).to_numpy()
    new = np.setdiff1d(day, list(days))
    days.update(new[: MOST_DATES - len(days)].tolist())
    starts = np.flatnonzero((np.diff(day, prepend=-1) != 0) | (np.diff(partition, prepend=-2) != 0))
    for low, high in zip(starts, [*starts[1:], len(rows)], strict=True):
        if int(day[low]) in days:
            piece = rows.slice(low, high - low)
            # Else its dictionaries would have the users of other days and buckets, too.
            yield EPOCH + timedelta(days=int(day[low])), _encoded_anew(piece)
        else:
            reading.skipped["implausible_time"] += int(high - low)


def _encoded_anew(rows: pa.Table) -> pa.Table:
    """The rows with dictionaries of what they say and nothing else."""
    for at, column in enumerate(rows.schema):
        if pa.types.is_dictionary(column.type):
            plain = rows.column(at).cast(column.type.value_type)
            rows = rows.set_column(at, column, plain.cast(column.type))
    return rows


def _tables(
    runs: Iterator[PacketBatch], partitions: int, keys: UserKeys, capture: str, reading: ReadStats
) -> Iterator[tuple[date, pa.Table]]:
    from spark_jobs.capture.columns import limit_dates, packet_tables, split_by_period
    from spark_jobs.capture.packet_sample import sampled_keys

    days: set[int] = set()
    for run in runs:
        kept, others = limit_dates(run, days, MOST_DATES)
        if others:
            reading.skipped["implausible_time"] += others
        if len(kept.rows):
            for of_period, called in split_by_period(kept, keys):
                reading.sample_keys.append(sampled_keys(of_period, called))
                yield from packet_tables(of_period, capture, partitions, called)


def _count(result: Ingested, table: pa.Table) -> None:
    import pyarrow.compute as pc

    result.rows += len(table)
    result.values += sum(len(table) - column.null_count for column in table.columns)
    low, high = pc.min_max(table["ts"].cast(pa.int64())).values()
    result.first_us = min(v for v in (result.first_us, low.as_py()) if v is not None)
    result.last_us = max(v for v in (result.last_us, high.as_py()) if v is not None)


def _refuse_same(others: list[PublishedUnit], result: Ingested) -> None:
    known = secret() if has_secret() else None
    content = key_content_hash(result.content, known)
    for commit in others:
        same = key_content_hash(commit.facts.get("content", ""), known) == content
        gave = commit.facts.get("rows", commit.facts["packets"])
        if same and gave:
            raise CopyError(
                f"{result.path}: holds the same packets as {commit.unit.name}, "
                "which is ingested already",
                commit.unit.name,
            )


def _publish(warehouse: Warehouse, staging: Staging, unit: Unit, read: Read) -> None:
    from spark_jobs.warehouse.files import to_datetime

    result = read.result
    log = {
        "capture": result.capture,
        "front_end": str(result.front_end),
        "frames": result.frames,
        "packets": result.packets,
        "rows": result.rows,
        "skipped": list(result.skipped.items()),
        "bytes": result.size,
        "seconds": result.seconds,
        "first_ts": to_datetime(result.first_us),
        "last_ts": to_datetime(result.last_us),
        "content": result.content,
        "error": result.error,
        "duplicate_of": result.duplicate_of,
    }
    with staging.part() as part:
        _stage_log(part, unit, log, read.sample)
    warehouse.publish(unit, [*read.files, *part.files], _facts(read))


def _stage_log(
    staging: Staging, unit: Unit, log: dict[str, Any], sample: np.ndarray | None = None
) -> None:
    """The capture's row of ingest_log into staging."""
    from spark_jobs.capture.packet_sample import METADATA_KEY, encode_sample

    day = log["first_ts"].date() if log["first_ts"] else capture_day(unit.name)
    rows = pa.Table.from_pylist([log], schema=INGEST_LOG.arrow).cast(INGEST_LOG.arrow_dictionary)
    with staging.writer(INGEST_LOG, unit.network, day, unit.name) as writer:
        writer.write_table(rows)
        if sample is not None:
            writer.add_key_value_metadata({METADATA_KEY: encode_sample(sample)})


def _facts(read: Read) -> dict[str, Any]:
    result = read.result
    return {
        "stamp": read.stamp,
        "content": result.content,
        "frames": result.frames,
        "packets": result.packets,
        "rows": result.rows,
        "values": result.values,
        "skipped": result.skipped,
        "front_end": str(result.front_end),
        "first_us": result.first_us,
        "last_us": result.last_us,
        "dates": [day.isoformat() for day in result.dates],
        "duplicate_of": result.duplicate_of,
        "replaces": result.replaces,
    }


def _give_way(warehouse: Warehouse, old: PublishedUnit, by: str) -> None:
    """Publish that a capture gives nothing any more, for another one has its packets."""
    log = _log_of(warehouse, old)
    nothing = {"packets": 0, "rows": 0, "duplicate_of": by}
    with warehouse.staging() as staging:
        _stage_log(staging, old.unit, log | nothing | {"error": _replaced(old.unit.name, by)})
        facts = old.facts | nothing | {"values": 0, "dates": [], "stamp": None}
        warehouse.publish(old.unit, staging.files, facts)


def _log_of(warehouse: Warehouse, capture: PublishedUnit) -> dict[str, Any]:
    """A capture's row of ingest_log."""
    from spark_jobs.warehouse.files import read_rows

    mine = [("capture", "=", capture.unit.name)]
    (log,) = read_rows(INGEST_LOG, warehouse.unit_files(capture, INGEST_LOG), mine).to_pylist()
    return log


def stage_again(
    warehouse: Warehouse,
    staging: Staging,
    capture: PublishedUnit,
    facts: dict[str, Any],
    out: list[np.ndarray] | None = None,
) -> set[str]:
    """Stage a capture's row of ingest_log with the counts that its facts have now, and with its
    sample but for some packets' keys, or without (None); returns the files that this replaces."""
    import numpy as np

    from spark_jobs.capture.packet_sample import METADATA_KEY, decode_sample
    from spark_jobs.warehouse.compaction import capture_metadata

    files = [target for target in capture.stored_in if target.startswith(f"{INGEST_LOG.name}/")]
    if not files:
        return set()
    text = capture_metadata(warehouse.root / files[0], capture.unit.name).get(METADATA_KEY)
    sample = None
    if out is not None and text is not None:
        sample = np.setdiff1d(decode_sample(text), np.concatenate([np.empty(0, np.uint64), *out]))
    counts = {name: facts[name] for name in ("packets", "rows", "content")}
    _stage_log(staging, capture.unit, _log_of(warehouse, capture) | counts, sample)
    return set(files)


def _finish_replacing(warehouse: Warehouse, network: Network) -> None:
    """Where a job was killed after it had published what replaces a capture."""
    with warehouse.locked(f"content-{network.name}"):
        for commit in warehouse.published_units("capture", network.name):
            for name, content in commit.facts.get("replaces", {}).items():
                old = warehouse.published(Unit("capture", network.name, name))
                if old and old.facts["content"] == content and old.facts["packets"]:
                    _give_way(warehouse, old, commit.unit.name)


def _tell_if_replaced(warehouse: Warehouse, result: Ingested) -> None:
    """A capture that was, by another one of the same run, gave nothing."""
    commit = warehouse.published(Unit("capture", result.network, result.capture))
    by = commit.facts.get("duplicate_of") if commit else None
    if by and not result.error:
        result.error, result.duplicate_of = _replaced(str(result.path), by), by
        result.packets, result.rows, result.values = 0, 0, 0


def _replaced(capture: str, by: str) -> str:
    return f"{capture}: its packets are in {by}, which has more and took its place"


def publish_network(warehouse: Warehouse, network: Network) -> None:
    """The network's facts into the networks table, where they changed. Raises UserError where its
    users' keys are made otherwise than those that are in the warehouse."""
    told = {
        "country": network.country,
        "access": network.access,
        "timezone": network.timezone,
        "peak_from": network.peak_hours[0],
        "peak_until": network.peak_hours[1],
        "off_peak_from": network.off_peak_hours[0],
        "off_peak_until": network.off_peak_hours[1],
        "flight_size_bytes": network.flight_size_bytes,
        "slot_rate": network.slot_rate,
        "min_users": network.min_users,
    }
    made_with = _keys_here(network).key_scheme
    facts = told | {"users": made_with}
    unit = Unit("network", network.name)
    old = warehouse.published(unit)
    if old and old.facts == facts and warehouse.is_intact(old):
        return
    if old:
        _refuse_other_keys(warehouse, network.name, old.facts.get("users", PLAIN), made_with)
    with warehouse.staging() as staging:
        rows = pa.Table.from_pylist([told], schema=NETWORKS.arrow)
        staging.write(NETWORKS, network.name, None, network.name, rows)
        warehouse.publish(unit, staging.files, facts)


def _keys_here(network: Network) -> UserKeys:
    """How its subscribers are called, by a secret that is made if there is none: here, where a job
    begins, lest each worker make its own."""
    if network.needs_key:
        make_secret()
    return user_keys(network)


def _refuse_other_keys(warehouse: Warehouse, network: str, before: str | None, now: str) -> None:
    """Raise UserError if the users there have other names: one subscriber would get two. before:
    None if that is not known any more."""
    if before in (now, None) or not any(
        c.facts["rows"] for c in warehouse.published_units("capture", network)
    ):
        return
    are = "plain addresses" if before == PLAIN else "pseudonyms of another key or key_period"
    mend = "--plain-addresses" if before == PLAIN else "that one"
    raise UserError(
        f"{warehouse.root}: the users of {network} there are {are}: {mend}, or another warehouse"
    )
