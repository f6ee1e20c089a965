"""Orphan files: files in the tables' folders that neither the catalog nor Iceberg's metadata name.

A killed job leaves some. If a backup of the catalog is restored, files that were published after
the backup look the same. So only files that are surely left over are removed.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import timedelta
from typing import NamedTuple

from spark_jobs.warehouse.targets import DATA_NAME

MIN_AGE = timedelta(days=1)
"""Minimum age of an orphan that is removed.

A job that writes to an object store publishes within a day.
"""
MAX_SHARE = 0.1
"""Maximum number of orphans removed unasked, as a share of the number of the catalog's files."""
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
METADATA_NAME = re.compile(
    rf"[^/]+/metadata/(\d+-{UUID}\.(gz\.)?metadata\.json|snap-\d+-\d+-{UUID}\.avro|{UUID}-m\d+\.avro)"
)
"""The names of Iceberg metadata files, as giscope and Iceberg's libraries write them."""


class Orphans(NamedTuple):
    """Orphan files, as paths below the root.

    - removable: may be removed now
    - recent: too young
    - foreign: with names that neither giscope nor Iceberg's libraries give
    - too_many: whether there are so many removable ones that the user must ask for their removal
    """

    removable: set[str]
    recent: set[str]
    foreign: set[str]
    too_many: bool


def classify_orphans(
    unknown: Collection[str], old: Collection[str], known: Collection[str]
) -> Orphans:
    """Classify the files that nothing names.

    unknown: these files. old: those of them that are older than MIN_AGE. known: the catalog's
    files. Only data files count against MAX_SHARE, as metadata can be made again.
    """
    own = {path for path in unknown if DATA_NAME.fullmatch(path) or METADATA_NAME.fullmatch(path)}
    removable = own.intersection(old)
    data = sum(map(bool, map(DATA_NAME.fullmatch, removable)))
    return Orphans(removable, own - removable, set(unknown) - own, data > MAX_SHARE * len(known))
