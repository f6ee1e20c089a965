"""The ingest job: it reads captures into packets, and logs of Zeek into packets or other tables.

One task reads one file. The job publishes each file's rows as a whole.
"""

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
from spark_jobs.errors import FullDiskError, UserError, in_a_line
from spark_jobs.jobs.duplicate_captures import (
    CapturePackets,
    DuplicateCaptureError,
    find_replaced_captures,
)
from spark_jobs.jobs.exclusions import load_exclusions, replace_unkeyed_hashes
from spark_jobs.jobs.leases import update_leases
from spark_jobs.jobs.subscribers_hint import subscribers_hint
from spark_jobs.networks import Network
from spark_jobs.places import NOT_REGULAR, is_irregular
from spark_jobs.warehouse.files import Written
from spark_jobs.warehouse.staging import Staging
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import PublishedUnit, Unit

if TYPE_CHECKING:
    import numpy as np

    from spark_jobs.capture.reader import PacketBatch, ReadStats
    from spark_jobs.warehouse.files import TableWriter

MAX_DATES = 400
"""Maximum number of days that one file may have; packets of further days are left out."""
FORMAT = {FrontEnd.BUILTIN: 9, FrontEnd.ZEEK: 9, FrontEnd.ZEEK_LOG: 9}
"""Version of each front end's rows: raise it if the same file would give other rows."""

CaptureFile = tuple[Network, Path]
"""A network and one of its capture files or logs."""


@dataclass
class CaptureOutcome:
    """The outcome of one capture file: its row of ingest_log, and more.

    unchanged: the file was ingested before, and has not changed since
    replaces: content by name of the captures whose place it takes, because it has their packets
    dates: the days whose packets it changed
    notes: lines for the user
    network_refused: the error is the network's, so nothing of the network was ingested
    disk_full: the error is a full disk, so the file may be good
    """

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
    unchanged: bool = False
    replaces: dict[str, str] = field(default_factory=dict)
    dates: list[date] = field(default_factory=list)
    front_end: FrontEnd = FrontEnd.BUILTIN
    notes: list[str] = field(default_factory=list)
    network_refused: bool = False
    disk_full: bool = False


@dataclass
class IngestResult:
    """The result of reading one capture file, before it is published.

    outcome: what is known of the file
    files: the staged files with its rows
    sample: a sample of its packets (see capture/packet_sample.py)
    stamp: values by which a later run decides whether to read the file again (see _stamp); None if
        the file could not be read
    """

    outcome: CaptureOutcome
    files: list[Written] = field(default_factory=list)
    sample: np.ndarray | None = None
    stamp: list[Any] | None = None


def ingest(
    warehouse: Warehouse,
    work: list[CaptureFile],
    front_end: FrontEnd = FrontEnd.AUTO,
) -> list[CaptureOutcome]:
    """Ingest capture files, except those that have not changed since they were ingested.

    An error of a file, or of a network, is in the outcomes of its files. It stops no other file.
    """
    refusals = _prepare_networks(
        warehouse, list({network.name: network for network, _ in work}.values())
    )
    outcomes: dict[CaptureFile, CaptureOutcome | None] = {}
    for item in work:
        if reason := refusals.get(item[0].name):
            outcomes[item] = _failed_outcome(item, reason, network_refused=True)
        else:
            outcomes[item] = _outcome_if_unchanged(warehouse, *item, front_end)
    notes = _choose_variants(outcomes)
    for item in [item for item, outcome in outcomes.items() if outcome is None]:
        # Check here: the processes that read files do not have the pipes of the shell.
        with suppress(OSError):
            if is_irregular(item[1]):
                outcomes[item] = _failed_outcome(item, f"{item[1]}: {NOT_REGULAR}")
    changed = [item for item, outcome in outcomes.items() if outcome is None]
    logs = {item for item in changed if has_log_name(item[1])}
    # Captures first: if a packet log was made from a capture, the log is the one to reject.
    for items in ([i for i in changed if i not in logs], [i for i in changed if i in logs]):
        outcomes.update(zip(items, _ingest_changed(warehouse, items, front_end), strict=True))
    for item, outcome in outcomes.items():
        assert outcome is not None
        _report_if_replaced(warehouse, outcome)
        outcome.notes += notes.get(item, [])
    networks = {network.name: network for network, _ in work if network.name not in refusals}
    update_leases(warehouse, list(networks.values()))
    warehouse.update_views()
    return [outcome for outcome in outcomes.values() if outcome]


def _prepare_networks(warehouse: Warehouse, networks: list[Network]) -> dict[str, str]:
    """Publish the networks' facts, and return the errors of networks that must not be ingested.

    The errors are by the network's name.
    """
    refusals = {}
    for network in networks:
        try:
            publish_network(warehouse, network)
            _finish_replacing(warehouse, network)
            with warehouse.locked(f"content-{network.name}"):
                replace_unkeyed_hashes(warehouse, network.name)
            load_exclusions(warehouse, network.name)  # fails without the key
        except (UserError, OSError) as error:
            refusals[network.name] = in_a_line(error)
    return refusals


def _failed_outcome(
    item: CaptureFile, reason: str, network_refused: bool = False
) -> CaptureOutcome:
    network, path = item
    return CaptureOutcome(
        network.name, capture_name(path), path, error=reason, network_refused=network_refused
    )


def _choose_variants(
    outcomes: dict[CaptureFile, CaptureOutcome | None],
) -> dict[CaptureFile, list[str]]:
    """Keep one outcome of each capture name.

    The other files fail if their content differs; else they are removed from `outcomes`. Returns
    notes on the removed files, by the file that is kept.
    """
    items_of_name: dict[tuple[str, str], list[CaptureFile]] = {}
    for item in outcomes:
        items_of_name.setdefault((item[0].name, capture_name(item[1])), []).append(item)
    notes: dict[CaptureFile, list[str]] = {}
    ambiguous = [items for items in items_of_name.values() if len(items) > 1]
    if ambiguous:
        from spark_jobs.capture.capture_variants import choose_file
    for items in ambiguous:
        if any(outcome and outcome.error for outcome in map(outcomes.get, items)):
            continue
        ingested_item = next((item for item in items if outcomes[item]), None)
        network, first = ingested_item or items[0]
        place = without_compression(first)
        paths = [path for _, path in items if without_compression(path) == place]
        choice = choose_file(paths, ingested_item[1] if ingested_item else None)
        notes[network, choice.chosen] = choice.notes
        for item in items:
            path = item[1]
            if path not in paths:
                reason = f"{path}: has the same capture name as {choice.chosen}: rename one"
                outcomes[item] = _failed_outcome(item, reason)
            elif path in choice.errors:
                outcomes[item] = _failed_outcome(item, choice.errors[path])
            elif path != choice.chosen:
                del outcomes[item]
    return notes


def _ingest_changed(
    warehouse: Warehouse, items: list[CaptureFile], front_end: FrontEnd
) -> list[CaptureOutcome]:
    """Read capture files, and publish each as soon as its task has read it."""
    if not items:
        return []
    if by_spark():  # its workers run in other folders
        items = [(network, path.absolute()) for network, path in items]
    with warehouse.staging() as staging:

        def publish(_: CaptureFile, result: IngestResult) -> None:
            _publish_result(warehouse, staging, result)

        task = _IngestTask(
            staging, front_end, _exclusions_by_network(warehouse, [n for n, _ in items])
        )
        results = run_tasks(task, items, "ingest", publish)
    return [result.outcome for result in results]


def ingest_capture(
    warehouse: Warehouse, network: Network, path: Path, front_end: FrontEnd = FrontEnd.AUTO
) -> CaptureOutcome:
    """Ingest one capture file into packets and ingest_log.

    Errors of the file are in the outcome. A file that does not exist leaves no row.
    """
    _keys_with_secret(network)
    with warehouse.staging() as staging:
        task = _IngestTask(staging, front_end, _exclusions_by_network(warehouse, [network]))
        result = task((network, path))
        _publish_result(warehouse, staging, result)
    return result.outcome


def _exclusions_by_network(
    warehouse: Warehouse, networks: list[Network]
) -> dict[str, RemovalFilter]:
    """Return, by network name, the users and days to leave out."""
    return {
        name: load_exclusions(warehouse, name) for name in {network.name for network in networks}
    }


@dataclass
class _IngestTask:
    staging: Staging
    front_end: FrontEnd
    exclusions: dict[str, RemovalFilter]

    def __call__(self, item: CaptureFile) -> IngestResult:
        from spark_jobs.capture.front_end import choose_front_end

        started = time.monotonic()
        network, path = item
        result = IngestResult(CaptureOutcome(network.name, capture_name(path), path))
        try:
            with self.staging.part() as part:
                result.outcome.front_end = choose_front_end(self.front_end, path)
                result.stamp = _stamp(path, network, result.outcome.front_end)
                exclusions = self.exclusions[network.name]
                result.sample = _stage_rows(part, network, path, result.outcome, exclusions)
                result.files = part.files
        except (UserError, OSError) as error:
            result.outcome.error = in_a_line(error)
            result.outcome.disk_full = isinstance(error, FullDiskError)
        result.outcome.seconds = time.monotonic() - started
        return result


def _publish_result(warehouse: Warehouse, staging: Staging, result: IngestResult) -> None:
    """Publish a capture's rows, or its row of ingest_log with the reason why it gave none."""
    outcome = result.outcome
    unit = Unit("capture", outcome.network, outcome.capture)
    previous = warehouse.published(unit)
    replaced: list[PublishedUnit] = []
    try:
        if not outcome.error:
            replaced = _publish_rows(warehouse, staging, unit, result)
    except (UserError, OSError) as error:
        outcome.error = in_a_line(error)
        outcome.disk_full = isinstance(error, FullDiskError)
        outcome.duplicate_of = (
            error.duplicate_of if isinstance(error, DuplicateCaptureError) else None
        )
    if outcome.error:
        warehouse.remove_staged(result.files)
        outcome.packets, outcome.rows, outcome.values, outcome.dates = 0, 0, 0, []
        if outcome.path.exists() and not (previous and previous.files):
            _publish_capture(warehouse, staging, unit, IngestResult(outcome))
        return
    previous_dates = {day for c in [previous, *replaced] if c for day in c.facts["dates"]}
    outcome.dates = sorted({*map(date.fromisoformat, previous_dates), *outcome.dates})
    outcome.notes += [
        f"{outcome.path}: replaces {name}, whose packets it contains" for name in outcome.replaces
    ]


def _publish_rows(
    warehouse: Warehouse, staging: Staging, unit: Unit, result: IngestResult
) -> list[PublishedUnit]:
    """Publish a capture's rows, and return the captures whose place it takes."""
    with warehouse.locked(f"content-{unit.network}"):
        others = [c for c in warehouse.published_units("capture", unit.network) if c.unit != unit]
        _reject_same_content(others, result.outcome)
        assert result.sample is not None
        paths = [file.staged.path for file in result.files if file.belongs_to(PACKETS)]
        new = CapturePackets(unit.name, _capture_facts(result), paths, result.sample)
        replaced = find_replaced_captures(warehouse, others, result.outcome.path, new)
        result.outcome.replaces = {c.unit.name: c.facts["content"] for c in replaced}
        _publish_capture(warehouse, staging, unit, result)
        for commit in replaced:
            _publish_replaced(warehouse, commit, unit.name)
    return replaced


def _stamp(path: Path, network: Network, front_end: FrontEnd) -> list[Any]:
    """Return the values by which a later run decides whether to read the file again.

    These are the file's size, its modification time, and a hash of the settings that its rows
    depend on.
    """
    status, keys = path.stat(), user_keys(network)
    others = [
        (other_network.name, other_network.subscribers, other_keys.key_scheme)
        for other_network, other_keys in zip(network.others, keys.other_networks, strict=True)
    ]
    settings = (
        f"{FORMAT[front_end]} {network.subscribers} {network.user_partitions} {front_end} "
        f"{keys.key_scheme} {network.servers} {network.nat64} {others}"
    )
    hashed = blake2b(keys.hash_text(settings).encode()).hexdigest()[:16]
    return [status.st_size, status.st_mtime_ns, hashed]


def _outcome_if_unchanged(
    warehouse: Warehouse, network: Network, path: Path, front_end: FrontEnd
) -> CaptureOutcome | None:
    """Return the outcome of a file that was ingested as it is now; None if it must be read."""
    name = capture_name(path)
    previous = warehouse.published(Unit("capture", network.name, name))
    try:
        if not previous or not warehouse.is_intact(previous):
            return None
        was_log = previous.facts.get("front_end") == FrontEnd.ZEEK_LOG
        automatic = FrontEnd.ZEEK_LOG if was_log else FrontEnd.BUILTIN
        chosen = automatic if front_end == FrontEnd.AUTO else front_end
        if previous.facts["stamp"] != _stamp(path, network, chosen):
            return None
    except OSError:
        return None
    facts = previous.facts
    return CaptureOutcome(
        network.name,
        name,
        path,
        facts["frames"],
        facts["packets"],
        facts["rows"],
        skipped=facts["skipped"],
        front_end=chosen,
        unchanged=True,
    )


def _stage_rows(
    staging: Staging,
    network: Network,
    path: Path,
    outcome: CaptureOutcome,
    exclusions: RemovalFilter,
) -> np.ndarray:
    """Stage a file's rows, and return the sample of its packets (see capture/packet_sample.py)."""
    import numpy as np

    from spark_jobs.capture.packet_sample import make_sample
    from spark_jobs.capture.reader import ReadStats
    from spark_jobs.warehouse.row_groups import write_row_group

    reading = ReadStats()
    removed_keys: list[np.ndarray] = []
    outcome.size = path.stat().st_size
    with ExitStack() as stack:
        writers: dict[date, TableWriter] = {}
        table, parts = _table_and_rows(network, path, outcome, reading)
        for day, rows_read in _parse(path, parts):
            rows_kept = exclusions.apply(table, day, rows_read)
            if len(rows_kept) < len(rows_read):
                reading.skipped[REMOVED_REASON] += len(rows_read) - len(rows_kept)
                if table is PACKETS:
                    removed_keys.append(_removed_keys(rows_read, rows_kept))
            if not len(rows_kept):
                continue
            if day not in writers:
                writers[day] = stack.enter_context(
                    staging.writer(table, network.name, day, outcome.capture)
                )
            write_row_group(writers[day], rows_kept)
            _add_counts(outcome, rows_kept)
    outcome.frames, outcome.skipped = reading.frames, dict(sorted(reading.skipped.items()))
    outcome.content, outcome.notes = (
        user_keys(network).hash_text(reading.content_hash),
        reading.notes,
    )
    if table is PACKETS and outcome.front_end == FrontEnd.BUILTIN:
        outcome.notes += subscribers_hint(path, network.name, outcome.rows, reading.skipped)
    if reading.counted_span_us:
        outcome.first_us, outcome.last_us = reading.counted_span_us
    if table is PACKETS:
        outcome.packets, outcome.dates = outcome.rows, sorted(writers)
    may_be_empty = outcome.front_end == FrontEnd.ZEEK_LOG and not (
        reading.frames or outcome.skipped
    )
    may_be_empty = may_be_empty or bool(outcome.skipped.get(REMOVED_REASON))
    if (
        not outcome.rows
        and not may_be_empty
        and (table is PACKETS or outcome.skipped.get("malformed_line"))
    ):
        reasons = ", ".join(f"{count} {why}" for why, count in outcome.skipped.items())
        raise UserError(
            f"{path}: no packet of a subscriber of {network.name} in it"
            + (f" ({reasons})" if reasons else "")
        )
    return np.setdiff1d(
        make_sample(reading.sample_keys), np.concatenate([np.empty(0, np.uint64), *removed_keys])
    )


@parser
def _parse(path: Path, parts: Iterator[tuple[date, pa.Table]]) -> Iterator[tuple[date, pa.Table]]:
    """Yield from `parts`, raising errors of the parser as errors of the file."""
    yield from parts


def _removed_keys(rows: pa.Table, kept: pa.Table) -> np.ndarray:
    """Return the keys of the packets that are left out (see capture/packet_sample.py)."""
    import numpy as np

    from spark_jobs.capture.packet_sample import packet_keys

    return np.setdiff1d(packet_keys(rows), packet_keys(kept))


def _table_and_rows(
    network: Network, path: Path, outcome: CaptureOutcome, reading: ReadStats
) -> tuple[Table, Iterator[tuple[date, pa.Table]]]:
    """Return the table that a file's rows belong to, and the rows.

    The rows come as one Arrow table for each user partition and day.
    """
    from spark_jobs.capture.addresses import subscriber_prefixes
    from spark_jobs.capture.clock import correct_clock_steps
    from spark_jobs.capture.duplicates import drop_duplicates
    from spark_jobs.capture.fragments import join_fragments
    from spark_jobs.capture.front_end import READERS
    from spark_jobs.capture.zeek_lines import log_kind

    prefixes, keys = subscriber_prefixes(network.subscribers), user_keys(network)
    log = log_kind(path) if outcome.front_end == FrontEnd.ZEEK_LOG else None
    if log and log is not PACKET_LOG:
        from spark_jobs.capture.operator_logs import TABLE_BY_LOG, read_operator_log

        rows = read_operator_log(
            path, log, prefixes, reading, outcome.capture, network.user_partitions, keys
        )
        return TABLE_BY_LOG[log.path], _by_partition_and_day(rows, reading)
    runs = READERS[outcome.front_end](path, prefixes, reading)
    for step in (correct_clock_steps, drop_duplicates, join_fragments):
        runs = step(runs, reading)
    return PACKETS, _packet_rows(runs, network.user_partitions, keys, outcome.capture, reading)


def _by_partition_and_day(
    tables: Iterator[pa.Table], reading: ReadStats
) -> Iterator[tuple[date, pa.Table]]:
    """Yield rows in pieces of about a million, each sorted and split by user partition and day."""
    from spark_jobs.capture.reader import BATCH_PACKETS

    pending: list[pa.Table] = []
    days: set[int] = set()
    for table in filter(len, tables):
        pending.append(table)
        if sum(map(len, pending)) >= BATCH_PACKETS:
            yield from _split_by_partition_and_day(pa.concat_tables(pending), days, reading)
            pending = []
    if pending:
        yield from _split_by_partition_and_day(pa.concat_tables(pending), days, reading)


def _split_by_partition_and_day(
    rows: pa.Table, days: set[int], reading: ReadStats
) -> Iterator[tuple[date, pa.Table]]:
    import numpy as np

    from spark_jobs.capture.columns import DAY_US, EPOCH

    rows = rows.unify_dictionaries().sort_by([("user_partition", "ascending"), ("ts", "ascending")])
    day = rows["ts"].cast(pa.int64()).to_numpy() // DAY_US
    partition = rows["user_partition"].fill_null(-1).to_numpy()
    new = np.setdiff1d(day, list(days))
    days.update(new[: MAX_DATES - len(days)].tolist())
    starts = np.flatnonzero((np.diff(day, prepend=-1) != 0) | (np.diff(partition, prepend=-2) != 0))
    for low, high in zip(starts, [*starts[1:], len(rows)], strict=True):
        if int(day[low]) in days:
            piece = rows.slice(low, high - low)
            # Otherwise its dictionaries would have the users of other days and partitions, too.
            yield EPOCH + timedelta(days=int(day[low])), _with_compact_dictionaries(piece)
        else:
            reading.skipped["implausible_time"] += int(high - low)


def _with_compact_dictionaries(rows: pa.Table) -> pa.Table:
    """Return the rows with dictionaries that have only the values in these rows."""
    for index, column in enumerate(rows.schema):
        if pa.types.is_dictionary(column.type):
            plain = rows.column(index).cast(column.type.value_type)
            rows = rows.set_column(index, column, plain.cast(column.type))
    return rows


def _packet_rows(
    runs: Iterator[PacketBatch], partitions: int, keys: UserKeys, capture: str, reading: ReadStats
) -> Iterator[tuple[date, pa.Table]]:
    from spark_jobs.capture.columns import limit_dates, packet_tables, split_by_period
    from spark_jobs.capture.packet_sample import sampled_keys

    days: set[int] = set()
    for run in runs:
        plausible, implausible = limit_dates(run, days, MAX_DATES)
        if implausible:
            reading.skipped["implausible_time"] += implausible
        if len(plausible.rows):
            for period_run, keys_of_period in split_by_period(plausible, keys):
                reading.sample_keys.append(sampled_keys(period_run, keys_of_period))
                yield from packet_tables(period_run, capture, partitions, keys_of_period)


def _add_counts(outcome: CaptureOutcome, table: pa.Table) -> None:
    import pyarrow.compute as pc

    outcome.rows += len(table)
    outcome.values += sum(len(table) - column.null_count for column in table.columns)
    low, high = pc.min_max(table["ts"].cast(pa.int64())).values()
    outcome.first_us = min(v for v in (outcome.first_us, low.as_py()) if v is not None)
    outcome.last_us = max(v for v in (outcome.last_us, high.as_py()) if v is not None)


def _reject_same_content(others: list[PublishedUnit], outcome: CaptureOutcome) -> None:
    key = secret() if has_secret() else None
    content = key_content_hash(outcome.content, key)
    for commit in others:
        is_same = key_content_hash(commit.facts.get("content", ""), key) == content
        row_count = commit.facts.get("rows", commit.facts["packets"])
        if is_same and row_count:
            raise DuplicateCaptureError(
                f"{outcome.path}: holds the same packets as {commit.unit.name}, "
                "which is ingested already",
                commit.unit.name,
            )


def _publish_capture(
    warehouse: Warehouse, staging: Staging, unit: Unit, result: IngestResult
) -> None:
    from spark_jobs.warehouse.files import to_datetime

    outcome = result.outcome
    log = {
        "capture": outcome.capture,
        "front_end": str(outcome.front_end),
        "frames": outcome.frames,
        "packets": outcome.packets,
        "rows": outcome.rows,
        "skipped": list(outcome.skipped.items()),
        "bytes": outcome.size,
        "seconds": outcome.seconds,
        "first_ts": to_datetime(outcome.first_us),
        "last_ts": to_datetime(outcome.last_us),
        "content": outcome.content,
        "error": outcome.error,
        "duplicate_of": outcome.duplicate_of,
    }
    with staging.part() as part:
        _stage_log_row(part, unit, log, result.sample)
    warehouse.publish(unit, [*result.files, *part.files], _capture_facts(result))


def _stage_log_row(
    staging: Staging, unit: Unit, log: dict[str, Any], sample: np.ndarray | None = None
) -> None:
    """Stage a capture's row of ingest_log."""
    from spark_jobs.capture.packet_sample import METADATA_KEY, encode_sample

    day = log["first_ts"].date() if log["first_ts"] else capture_day(unit.name)
    rows = pa.Table.from_pylist([log], schema=INGEST_LOG.arrow).cast(INGEST_LOG.arrow_dictionary)
    with staging.writer(INGEST_LOG, unit.network, day, unit.name) as writer:
        writer.write_table(rows)
        if sample is not None:
            writer.add_key_value_metadata({METADATA_KEY: encode_sample(sample)})


def _capture_facts(result: IngestResult) -> dict[str, Any]:
    outcome = result.outcome
    return {
        "stamp": result.stamp,
        "content": outcome.content,
        "frames": outcome.frames,
        "packets": outcome.packets,
        "rows": outcome.rows,
        "values": outcome.values,
        "skipped": outcome.skipped,
        "front_end": str(outcome.front_end),
        "first_us": outcome.first_us,
        "last_us": outcome.last_us,
        "dates": [day.isoformat() for day in outcome.dates],
        "duplicate_of": outcome.duplicate_of,
        "replaces": outcome.replaces,
    }


def _publish_replaced(warehouse: Warehouse, old: PublishedUnit, duplicate_of: str) -> None:
    """Publish that a capture gives no rows any more, because another capture has its packets."""
    log = _log_row(warehouse, old)
    nothing = {"packets": 0, "rows": 0, "duplicate_of": duplicate_of}
    with warehouse.staging() as staging:
        _stage_log_row(
            staging,
            old.unit,
            log | nothing | {"error": _replaced_message(old.unit.name, duplicate_of)},
        )
        facts = old.facts | nothing | {"values": 0, "dates": [], "stamp": None}
        warehouse.publish(old.unit, staging.files, facts)


def _log_row(warehouse: Warehouse, capture: PublishedUnit) -> dict[str, Any]:
    """Return a capture's row of ingest_log."""
    from spark_jobs.warehouse.files import read_rows

    filters = [("capture", "=", capture.unit.name)]
    (log,) = read_rows(INGEST_LOG, warehouse.unit_files(capture, INGEST_LOG), filters).to_pylist()
    return log


def restage_log_row(
    warehouse: Warehouse,
    staging: Staging,
    capture: PublishedUnit,
    facts: dict[str, Any],
    removed_keys: list[np.ndarray] | None = None,
) -> set[str]:
    """Stage a capture's row of ingest_log with the counts in `facts`; return the replaced files.

    The row keeps the capture's sample, without the keys in removed_keys; if removed_keys is None,
    it has no sample.
    """
    import numpy as np

    from spark_jobs.capture.packet_sample import METADATA_KEY, decode_sample
    from spark_jobs.warehouse.compaction import capture_metadata

    files = [target for target in capture.stored_in if target.startswith(f"{INGEST_LOG.name}/")]
    if not files:
        return set()
    text = capture_metadata(warehouse.root / files[0], capture.unit.name).get(METADATA_KEY)
    sample = None
    if removed_keys is not None and text is not None:
        sample = np.setdiff1d(
            decode_sample(text), np.concatenate([np.empty(0, np.uint64), *removed_keys])
        )
    counts = {name: facts[name] for name in ("packets", "rows", "content")}
    _stage_log_row(staging, capture.unit, _log_row(warehouse, capture) | counts, sample)
    return set(files)


def _finish_replacing(warehouse: Warehouse, network: Network) -> None:
    """Finish the replacing of captures that a killed job left unfinished.

    Such a job had published the new capture, but not yet that the older ones give no rows any more.
    """
    with warehouse.locked(f"content-{network.name}"):
        for commit in warehouse.published_units("capture", network.name):
            for name, content in commit.facts.get("replaces", {}).items():
                old = warehouse.published(Unit("capture", network.name, name))
                if old and old.facts["content"] == content and old.facts["packets"]:
                    _publish_replaced(warehouse, old, commit.unit.name)


def _report_if_replaced(warehouse: Warehouse, outcome: CaptureOutcome) -> None:
    """Change the outcome of a capture that another capture of the same run has replaced."""
    commit = warehouse.published(Unit("capture", outcome.network, outcome.capture))
    duplicate_of = commit.facts.get("duplicate_of") if commit else None
    if duplicate_of and not outcome.error:
        outcome.error, outcome.duplicate_of = (
            _replaced_message(str(outcome.path), duplicate_of),
            duplicate_of,
        )
        outcome.packets, outcome.rows, outcome.values = 0, 0, 0


def _replaced_message(capture: str, duplicate_of: str) -> str:
    return f"{capture}: its packets are in {duplicate_of}, which has more and took its place"


def publish_network(warehouse: Warehouse, network: Network) -> None:
    """Publish the network's facts in the networks table, if they changed.

    Raises UserError if the network's users now get other names than those in the warehouse.
    """
    columns = {
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
    made_with = _keys_with_secret(network).key_scheme
    facts = columns | {"users": made_with}
    unit = Unit("network", network.name)
    previous = warehouse.published(unit)
    if previous and previous.facts == facts and warehouse.is_intact(previous):
        return
    if previous:
        _reject_other_keys(warehouse, network.name, previous.facts.get("users", PLAIN), made_with)
    with warehouse.staging() as staging:
        rows = pa.Table.from_pylist([columns], schema=NETWORKS.arrow)
        staging.write(NETWORKS, network.name, None, network.name, rows)
        warehouse.publish(unit, staging.files, facts)


def _keys_with_secret(network: Network) -> UserKeys:
    """Return the network's user keys, after making the secret if it is needed and there is none.

    The job calls this once before the tasks begin: otherwise each worker would make a secret of its
    own.
    """
    if network.needs_key:
        make_secret()
    return user_keys(network)


def _reject_other_keys(warehouse: Warehouse, network: str, before: str | None, now: str) -> None:
    """Raise UserError if the users in the warehouse have other names.

    Otherwise a subscriber would become two users. before: how the users' names were made; None if
    that is not known any more.
    """
    if before in (now, None) or not any(
        c.facts["rows"] for c in warehouse.published_units("capture", network)
    ):
        return
    present_names = (
        "plain addresses" if before == PLAIN else "pseudonyms of another key or key_period"
    )
    remedy = "--plain-addresses" if before == PLAIN else "that one"
    raise UserError(
        f"{warehouse.root}: the users of {network} in it are {present_names}: "
        f"use {remedy}, or another warehouse"
    )
