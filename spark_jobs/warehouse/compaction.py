"""Small files of captures merged into larger ones, and split again.

Captures that are rotated every few minutes leave hundreds of files a day. A merged file holds their
rows, one capture after the other, and is read in their place. The catalog still knows what each of
the files was. So what was made of their packets stays up to date.

A row group of packets keeps its rows when files are merged (see row_groups.py).

If a capture is published again, the merged file with its rows is split first, into files with the
bytes that the captures had.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from schemas import INGEST_LOG, PACKETS
from spark_jobs.warehouse.catalog import File
from spark_jobs.warehouse.facts import CaptureFacts
from spark_jobs.warehouse.files import Written, read_metadata
from spark_jobs.warehouse.row_groups import rows_by_capture, stored_row_groups, write_row_group
from spark_jobs.warehouse.staging import Staging
from spark_jobs.warehouse.targets import Partition
from spark_jobs.warehouse.units import Content, PublishedUnit

MERGED_TABLES = (PACKETS.name, INGEST_LOG.name)
"""The names of the tables with one file for each capture.

A file of ingest_log has one row. The rows of merged files of ingest_log become one row group.
"""
MIN_FILES = 16
"""Minimum number of files that are merged at once.

So a network's day has fewer unmerged files of captures than this, and a capture is merged once, no
matter how often new ones come.
"""
MAX_BYTES = 256 << 20
"""Maximum size of a merged file, in bytes: what is written again if one of its captures is."""
MAX_SMALL_BYTES = MAX_BYTES // MIN_FILES
MAX_ROW_GROUPS = 512
"""Maximum number of row groups of a merged file.

A reader holds the metadata of all of them, some 20 kB each.
"""


class CaptureFile(NamedTuple):
    """A file of one capture.

    - target: its path below the root
    - content: what was published
    - capture: the capture's name
    - first_us: the time of the capture's first packet (µs since 1970)
    """

    target: str
    content: Content
    capture: str
    first_us: int


def small_files(units: Iterable[PublishedUnit]) -> list[list[CaptureFile]]:
    """Return files of captures to merge: a list for each partition, in order of time."""
    found: dict[str, list[CaptureFile]] = defaultdict(list)
    for published in units:
        first_us = CaptureFacts.of(published).first_us or 0
        for target, content in published.stored_in.items():
            is_small = target in published.contents and content.size <= MAX_SMALL_BYTES
            if is_small and target.partition("/")[0] in MERGED_TABLES:
                part = CaptureFile(target, content, published.unit.name, first_us)
                found[target.rpartition("/")[0]].append(part)
    by_time = attrgetter("first_us", "capture")
    return [sorted(parts, key=by_time) for parts in found.values() if len(parts) >= MIN_FILES]


def merge(
    root: Path, parts: list[CaptureFile], staging: Staging
) -> Iterator[tuple[Written, list[CaptureFile]]]:
    """Write merged files of a partition to staging.

    Yields each file with the captures' files whose rows it holds. Files of another format are left
    out.
    """
    for batch in _within_limits(root, parts):
        partition = Partition.of(batch[0].target)
        with staging.writer(*partition, "captures") as writer:
            paths = (root / part.target for part in batch)
            row_groups = chain.from_iterable(stored_row_groups(p, partition.table) for p in paths)
            joined = [pa.concat_tables(row_groups)] if partition.table is INGEST_LOG else row_groups
            for rows in joined:
                write_row_group(writer, rows)
        yield writer.written, batch


def _within_limits(root: Path, parts: list[CaptureFile]) -> Iterator[list[CaptureFile]]:
    """Yield lists of at least two files that one merged file may hold."""
    batch: list[CaptureFile] = []
    size = row_groups = 0
    for part in parts:
        metadata = read_metadata(root / part.target)
        if metadata.schema.to_arrow_schema() != Partition.of(part.target).table.arrow:
            continue
        size, row_groups = size + part.content.size, row_groups + metadata.num_row_groups
        if batch and (size > MAX_BYTES or row_groups > MAX_ROW_GROUPS):
            if len(batch) > 1:
                yield batch
            batch, size, row_groups = [], part.content.size, metadata.num_row_groups
        batch.append(part)
    if len(batch) > 1:
        yield batch


def split(root: Path, target: str, staging: Staging) -> dict[str, Written]:
    """Write the files that the captures had to staging; return them by capture.

    Their rows are those of the merged file.
    """
    partition, found = Partition.of(target), {}
    for capture, parts in groupby(rows_by_capture(root / target, partition.table), itemgetter(0)):
        with staging.writer(*partition, capture) as writer:
            for _, rows in parts:
                write_row_group(writer, rows)
        found[capture] = writer.written
    return found


def missing_part(file: File, capture: str, staging: Staging) -> File:
    """Return a new path for a capture's file whose merged file is lost.

    The catalog lists it there, and its check reports the file as missing.
    """
    return file._replace(path=staging.path(*Partition.of(file.path), capture).target)
