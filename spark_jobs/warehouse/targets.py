"""Targets: the paths of published files below the warehouse's root.

A target is TABLE/network=NETWORK/date=DAY/NAME-LAYOUT-VERSION.parquet. Tables without days have no
date. No other module puts a target together or takes one apart.
"""

from __future__ import annotations

import datetime
import re
from pathlib import PurePath
from typing import NamedTuple

from schemas import Table
from spark_jobs.figures.tables import TABLES

NO_DATE = "__HIVE_DEFAULT_PARTITION__"
"""Stands for the day of files without a day, as Hive writes it."""
DATA_NAME = re.compile(r"[^/]+/network=[^/]+/(date=[^/]+/)?[^/]+-[0-9a-f]{8}\.parquet")
"""The form of a target."""
NETWORK_FOLDER = re.compile("(?:^|/)network=([^/]+)/")


class Partition(NamedTuple):
    """A partition of a table: its rows of a network, and of a day if the table has days.

    date: None for rows without a day, such as those of captures that could not be read.
    """

    table: Table
    network: str
    date: datetime.date | None

    @classmethod
    def of(cls, target: str) -> Partition:
        """Return the partition of a file."""
        network, text = target.split("/")[1].removeprefix("network="), day_text(target)
        date = None if text == NO_DATE else datetime.date.fromisoformat(text)
        return cls(TABLES[table_name(target)], network, date)

    def target(self, stem: str, version: str) -> str:
        """Return the target of a file, with the first and the last part of its name."""
        parts = [self.table.name, f"network={self.network}"]
        if len(self.table.partitions) > 1:
            parts.append(f"date={self.date.isoformat() if self.date else NO_DATE}")
        return "/".join([*parts, f"{stem}-{self.table.layout}-{version}.parquet"])


def has_columns_of(table: Table, target: str | PurePath) -> bool:
    """Return whether a file has a table's columns, by its name; one of another format may not."""
    return table.layout in str(target).rsplit("-", 2)[-2:-1]


def table_name(target: str) -> str:
    """Return the name of a file's table."""
    return target.partition("/")[0]


def day_text(path: str) -> str:
    """Return the day of a file's folder as text; NO_DATE if it has none."""
    folder = path.rpartition("/")[0].rpartition("/")[2]
    return folder.removeprefix("date=") if folder.startswith("date=") else NO_DATE


def network_of(path: str) -> str | None:
    """Return the network in whose folder a path lies; None if it lies in no network's folder."""
    found = NETWORK_FOLDER.search(path)
    return found[1] if found else None


def stem(target: str) -> str:
    """Return the first part of a file's name, which its writer gave it."""
    return target.rpartition("/")[2].rsplit("-", 2)[0]


def is_partition(folder: str) -> bool:
    """Return whether readers take a folder of this name for a partition."""
    return folder.startswith(("network=", "date="))
