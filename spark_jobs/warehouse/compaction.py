"""Small files of captures merged into larger ones, and split again.

Captures that are rotated every few minutes leave hundreds of files a day. A merged file has what
they have, one capture after the other, and is read in their place; the journal knows what each of
them was, so that what was made of their packets stays up to date. Row groups of packets stay as
they are: each has one capture's packets, by which their order is told, and of a bucket. Where a
capture is published again, the merged file that has its rows is split first, into files with the
bytes that the captures had.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from schemas import INGEST_LOG, PACKETS, TABLES, Table
from spark_jobs.warehouse.units import PublishedUnit, Content
from spark_jobs.warehouse.files import Written, metadata_of, opened, read_metadata
from spark_jobs.warehouse.catalog import File
from spark_jobs.warehouse.staging import NO_DATE, Staging

MERGED_TABLES = (PACKETS, INGEST_LOG)
"""Those with a file a capture; rows of ingest_log, one a capture, become one row group."""
FEWEST = 16
"""Files that are merged at once: a network's day has less than so many of captures that are not
merged, and a capture is merged once, however often there are new ones."""
LARGEST = 256 << 20
"""Bytes of a merged file: what is written again where one of its captures is."""
SMALL = LARGEST // FEWEST
MOST_ROW_GROUPS = 512
"""Of a merged file: a reader holds what is said of all of them, some 20 kB each."""


class Part(NamedTuple):
    """A capture's file: its path under the root, what was published, the capture, when that begins
    (µs)."""

    target: str
    content: Content
    capture: str
    first_us: int


class Place(NamedTuple):
    """A table's partition, as a path says."""

    table: Table
    network: str
    date: datetime.date | None

    @classmethod
    def of(cls, target: str) -> Place:
        """That which a file under the root is in."""
        table, network, *day, _ = target.split("/")
        text = day[0].removeprefix("date=") if day else NO_DATE
        date = None if text == NO_DATE else datetime.date.fromisoformat(text)
        return cls(TABLES[table], network.removeprefix("network="), date)


def small_files(commits: Iterable[PublishedUnit]) -> list[list[Part]]:
    """Files of captures that are to be merged: by partition, in the order of the captures."""
    found: dict[str, list[Part]] = defaultdict(list)
    for commit in commits:
        for target, content in commit.stored_in.items():
            folder, table = target.rpartition("/")[0], target.partition("/")[0]
            of_one = target in commit.contents and content.size <= SMALL
            if of_one and table in {merged.name for merged in MERGED_TABLES}:
                first_us = commit.facts.get("first_us") or 0
                found[folder].append(Part(target, content, commit.unit.name, first_us))
    in_order = itemgetter(Part._fields.index("first_us"), Part._fields.index("capture"))
    return [sorted(parts, key=in_order) for parts in found.values() if len(parts) >= FEWEST]


def merge(root: Path, parts: list[Part], staging: Staging) -> Iterator[tuple[Written, list[Part]]]:
    """Files, staged, that have the rows of captures' files of a partition, each with those whose
    rows it has. Left out are files of an earlier version, whose columns are others."""
    for chosen in _within_limits(root, parts):
        path_of = Place.of(chosen[0].target)
        with staging.writer(*path_of, "captures") as writer:
            pieces = (rows for part in chosen for rows in _row_groups(root / part.target, path_of))
            joined = [pa.concat_tables(pieces)] if path_of.table is INGEST_LOG else pieces
            for rows in joined:
                writer.write_table(rows, row_group_size=len(rows))
            writer.add_key_value_metadata(
                {
                    _text_name(part.capture, name): text
                    for part in chosen
                    for name, text in metadata_of(root / part.target).items()
                }
            )
        yield writer.written, chosen


def _within_limits(root: Path, parts: list[Part]) -> Iterator[list[Part]]:
    """As many at a time as a merged file may have; of two at least."""
    held: list[Part] = []
    size = row_groups = 0
    for part in parts:
        metadata = read_metadata(root / part.target)
        if metadata.schema.to_arrow_schema() != Place.of(part.target).table.arrow:
            continue
        size, row_groups = size + part.content.size, row_groups + metadata.num_row_groups
        if held and (size > LARGEST or row_groups > MOST_ROW_GROUPS):
            if len(held) > 1:
                yield held
            held, size, row_groups = [], part.content.size, metadata.num_row_groups
        held.append(part)
    if len(held) > 1:
        yield held


def split(root: Path, target: str, staging: Staging) -> dict[str, Written]:
    """A merged file's rows as the files that the captures had, staged: by capture."""
    path_of, texts, found = Place.of(target), metadata_of(root / target), {}
    for capture, pieces in groupby(by_capture(root / target, path_of), itemgetter(0)):
        with staging.writer(*path_of, capture) as writer:
            for _, rows in pieces:
                writer.write_table(rows, row_group_size=len(rows))
            if mine := _texts_of(capture, texts):
                writer.add_key_value_metadata(mine)
        found[capture] = writer.written
    return found


def lost(file: File, capture: str, staging: Staging) -> File:
    """What a capture's file is where the merged one is lost: missing, at a place of its own."""
    return file._replace(path=staging.path(*Place.of(file.path), capture).target)


def by_capture(path: Path, path_of: Place) -> Iterator[tuple[str, pa.Table]]:
    """Each row group's rows by capture."""
    for rows in _row_groups(path, path_of):
        captures = rows["capture"].unique().to_pylist()
        if len(captures) == 1:
            yield captures[0], rows
            continue
        plain = rows.cast(path_of.table.arrow)  # else each would have all captures' dictionaries
        for capture in captures:
            mine = plain.filter(pc.field("capture") == capture)
            yield capture, mine.cast(path_of.table.arrow_dictionary)


def _row_groups(path: Path, path_of: Place) -> Iterator[pa.Table]:
    """As their writer had them."""
    schema = path_of.table.arrow_dictionary
    texts = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    with opened(path, read_dictionary=texts) as file:
        for number in range(file.num_row_groups):
            yield file.read_row_group(number, use_threads=False).cast(schema)


def capture_texts(path: Path, capture: str) -> dict[str, str]:
    """What a capture's file has in its metadata, merged with others or not."""
    texts = metadata_of(path)
    return texts | _texts_of(capture, texts)


def _texts_of(capture: str, texts: dict[str, str]) -> dict[str, str]:
    """Those of a capture, of a merged file's texts."""
    begin = _text_name(capture, "")
    return {name.removeprefix(begin): t for name, t in texts.items() if name.startswith(begin)}


def _text_name(capture: str, name: str) -> str:
    """What a text of a capture's file is named in the metadata of a merged one."""
    return f"{capture}\n{name}"
