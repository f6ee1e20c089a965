"""Files of a change, written where no reader looks, until they are published."""

from __future__ import annotations

import datetime
import fcntl
import shutil
import uuid
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from schemas import Table
from spark_jobs.warehouse.disk import file_name

if TYPE_CHECKING:
    import pyarrow.parquet as pq

OWNER = "owner.lock"
NO_DATE = "__HIVE_DEFAULT_PARTITION__"


class Staging:
    """Files of one change, written where no reader looks, each with its future partition."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.files: dict[str, Path] = {}

    def path(self, table: Table, network: str, date: datetime.date | None, stem: str) -> Path:
        """Where to write a Parquet file of a partition."""
        version = uuid.uuid4().hex[:8]
        parts = [table.name, f"network={network}"]
        if len(table.partitions) > 1:
            parts.append(f"date={date.isoformat() if date else NO_DATE}")
        target = "/".join([*parts, f"{file_name(stem)}-{version}.parquet"])
        self.files[target] = self.folder / f"{len(self.files):05d}-{version}.parquet"
        return self.files[target]

    def writer(
        self, table: Table, network: str, date: datetime.date | None, stem: str
    ) -> pq.ParquetWriter:
        """A writer of tables with the schema `table.arrow_dictionary`."""
        from spark_jobs.warehouse.files import table_writer

        path = self.path(table, network, date, stem)
        return table_writer(table, path)

    def write(
        self, table: Table, network: str, date: datetime.date | None, stem: str, rows: pa.Table
    ) -> None:
        """Rows as one file of a partition; their columns must be the schema's."""
        from spark_jobs.warehouse.files import LARGEST_ROW_GROUP

        with self.writer(table, network, date, stem) as writer:
            writer.write_table(
                rows.select(table.arrow.names).cast(table.arrow_dictionary),
                row_group_size=LARGEST_ROW_GROUP,
            )


def claim(folder: Path) -> IO[str]:
    """Make a folder that is this process's as long as the returned file is open; of its neighbours,
    those are removed whose owner was killed. One process at a time may call it."""
    folder.mkdir(parents=True)
    owner = (folder / OWNER).open("w")
    fcntl.flock(owner, fcntl.LOCK_EX)
    for other in folder.parent.iterdir():
        _remove_if_orphaned(other)
    return owner


def _remove_if_orphaned(folder: Path) -> None:
    try:
        with (folder / OWNER).open() as owner:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    except OSError:  # killed before it had an owner
        pass
    shutil.rmtree(folder, ignore_errors=True)
