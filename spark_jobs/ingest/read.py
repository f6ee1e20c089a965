"""Reading of one capture or log: its rows, staged by day, and the facts about them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa

from schemas import PACKETS, Table
from schemas.zeek import PACKET_LOG
from spark_jobs.base.errors import FullDiskError, UserError, in_a_line
from spark_jobs.capture import FrontEnd
from spark_jobs.capture.addresses import subscriber_prefixes
from spark_jobs.capture.clock import correct_clock_steps
from spark_jobs.capture.cut_rows import cut_log_rows, cut_packets
from spark_jobs.capture.duplicates import drop_duplicates
from spark_jobs.capture.fragments import join_fragments
from spark_jobs.capture.front_end import READERS, choose_front_end
from spark_jobs.capture.quic_flows import mark_quic
from spark_jobs.capture.reader import PacketBatch, ReadStats
from spark_jobs.capture.removal_filter import REMOVED_REASON, RemovalFilter
from spark_jobs.capture.subscribers_hint import subscribers_hint
from spark_jobs.capture.untrusted import parser
from spark_jobs.capture.users import user_keys
from spark_jobs.capture.zeek_kinds import log_kind
from spark_jobs.ingest.files import CaptureFile, capture_name
from spark_jobs.ingest.plan import FORMAT
from spark_jobs.ingest.publish import CaptureRead, count_rows
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse.facts import CaptureFacts
from spark_jobs.warehouse.files import TableWriter
from spark_jobs.warehouse.row_groups import write_row_group
from spark_jobs.warehouse.staging import Staging


def read_file(
    staging: Staging, file: CaptureFile, front_end: FrontEnd, exclusions: RemovalFilter
) -> CaptureRead:
    """Read a capture or log, and stage its rows but for those that are excluded."""
    started = time.monotonic()
    read = CaptureRead()
    try:
        with staging.part() as part:
            chosen = choose_front_end(front_end, file[1])
            _stage_rows(part, file, chosen, exclusions, read)
            read.files = part.files
    except (UserError, OSError) as error:
        read.facts = read.facts.replace(error=in_a_line(error))
        read.disk_full = isinstance(error, FullDiskError)
    read.facts = read.facts.replace(seconds=time.monotonic() - started)
    return read


def _stage_rows(
    staging: Staging,
    file: CaptureFile,
    front_end: FrontEnd,
    exclusions: RemovalFilter,
    read: CaptureRead,
) -> None:
    """Stage a file's rows; `read` gets what is known of the file as soon as it is known."""
    network, path = file
    read.facts = read.facts.replace(front_end=str(front_end), format=FORMAT)
    read.facts = read.facts.replace(size=path.stat().st_size)
    stats = ReadStats()
    with ExitStack() as stack:
        writers: dict[date, TableWriter] = {}
        table, pieces = _table_and_pieces(network, path, front_end, stats)
        first_rows = None
        for day, rows in _parse(path, pieces):
            first_rows = rows if first_rows is None else first_rows
            kept = exclusions.apply(table, day, rows)
            if len(kept) < len(rows):
                stats.skipped[REMOVED_REASON] += len(rows) - len(kept)
            if not len(kept):
                continue
            if day not in writers:
                writers[day] = stack.enter_context(
                    staging.writer(table, network.name, day, capture_name(path))
                )
            write_row_group(writers[day], kept)
            read.facts = count_rows(read.facts, table, day, kept)
    read.facts = _complete(read.facts, network, stats)
    read.notes = stats.notes
    if table is PACKETS and front_end == FrontEnd.BUILTIN:
        read.notes += subscribers_hint(path, network.name, first_rows, read.facts.rows, stats)
    if not (read.facts.rows or _may_be_empty(read.facts, table)):
        reasons = ", ".join(f"{count} {why}" for why, count in read.facts.skipped.items())
        raise UserError(
            f"{path}: no packet of a subscriber of {network.name} in it"
            + (f" ({reasons})" if reasons else "")
        )


def _table_and_pieces(
    network: Network, path: Path, front_end: FrontEnd, stats: ReadStats
) -> tuple[Table, Iterator[tuple[date, pa.Table]]]:
    """Return the table of a file's rows, and the rows in pieces (see cut_rows.py)."""
    capture, partitions = capture_name(path), network.user_partitions
    prefixes, keys = subscriber_prefixes(network.prefixes), user_keys(network)
    log = log_kind(path) if front_end == FrontEnd.ZEEK_LOG else None
    if log and log is not PACKET_LOG:
        from spark_jobs.capture.operator_logs import TABLE_BY_LOG, read_operator_log

        rows = read_operator_log(
            path, log, prefixes, stats, capture, partitions, keys, network.area, network.device
        )
        return TABLE_BY_LOG[log.path], cut_log_rows(rows, stats)
    runs = READERS[front_end](path, prefixes, stats)
    if network.vlans:
        if front_end != FrontEnd.BUILTIN:
            raise UserError(
                f"{path}: Zeek's logs have no VLANs, which {network.name} is limited to: read the "
                "capture itself, with --front-end builtin"
            )
        runs = _in_vlans(runs, network.vlans, stats)
    for step in (mark_quic, correct_clock_steps, drop_duplicates, join_fragments):
        runs = step(runs, stats)
    return PACKETS, cut_packets(runs, capture, partitions, keys, stats)


def _in_vlans(
    batches: Iterator[PacketBatch], vlans: Collection[int], stats: ReadStats
) -> Iterator[PacketBatch]:
    """Yield the packets of some VLANs; the others are counted. No batch is empty."""
    for batch in batches:
        wanted = np.isin(batch.addresses.vlans[batch.rows["user"]], [*vlans])
        if not wanted.all():
            stats.skipped["not_subscriber"] += len(wanted) - int(wanted.sum())
            batch = batch.select(wanted)
        if len(batch.rows):
            yield batch


@parser
def _parse(path: Path, pieces: Iterator[tuple[date, pa.Table]]) -> Iterator[tuple[date, pa.Table]]:
    """Yield the pieces, raising errors of the parser as errors of the file."""
    yield from pieces


def _complete(facts: CaptureFacts, network: Network, stats: ReadStats) -> CaptureFacts:
    """Return the facts of a file that was read to its end."""
    first_us, last_us = stats.counted_span_us or (facts.first_us, facts.last_us)
    return facts.replace(
        frames=stats.frames,
        skipped=dict(sorted(stats.skipped.items())),
        content=user_keys(network).hash_text(stats.content_hash),
        first_us=first_us,
        last_us=last_us,
    )


def _may_be_empty(facts: CaptureFacts, table: Table) -> bool:
    """Return whether a file without rows is no error."""
    is_empty_log = facts.front_end == FrontEnd.ZEEK_LOG and not (facts.frames or facts.skipped)
    if is_empty_log or facts.skipped.get(REMOVED_REASON):
        return True
    return table is not PACKETS and not facts.skipped.get("malformed_line")
