"""Orphans: files in the tables' folders that neither the catalog nor Iceberg's metadata name.

A killed job leaves some. Files that were published after a backup of the catalog look the same when
the backup is restored. So only those are removed that are surely left over.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import timedelta
from typing import NamedTuple

MIN_AGE = timedelta(days=1)
"""How long an orphan stays: a job that writes to a bucket publishes within a day."""
MAX_SHARE = 0.1
"""More orphans than this share of the catalog's files are removed only if the user asks for it."""
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
DATA_NAME = re.compile(r"[^/]+/network=[^/]+/(date=[^/]+/)?[^/]+-[0-9a-f]{8}\.parquet")
METADATA_NAME = re.compile(
    rf"[^/]+/metadata/(\d+-{UUID}\.(gz\.)?metadata\.json|snap-\d+-\d+-{UUID}\.avro|{UUID}-m\d+\.avro)"
)
"""What giscope, and Iceberg's libraries, name their files."""


class Orphans(NamedTuple):
    """Paths under the root. removable: may be removed now; recent: too young; foreign: of names
    that nothing here gives; too_many: the removable ones are so many that the user must ask."""

    removable: set[str]
    recent: set[str]
    foreign: set[str]
    too_many: bool


def classify_orphans(
    unknown: Collection[str], old: Collection[str], known: Collection[str]
) -> Orphans:
    """Which of the files that nothing names may be removed. old: those that are older than STAY;
    known: the catalog's files. Only data files count against SHARE: metadata can be made again."""
    own = {path for path in unknown if DATA_NAME.fullmatch(path) or METADATA_NAME.fullmatch(path)}
    removable = own.intersection(old)
    data = sum(map(bool, map(DATA_NAME.fullmatch, removable)))
    return Orphans(removable, own - removable, set(unknown) - own, data > MAX_SHARE * len(known))
