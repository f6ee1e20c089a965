"""Files of a change, written where no reader looks, until they are published."""

from __future__ import annotations

import datetime
import fcntl
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa

from schemas import Table
from spark_jobs.base.places import in_object_store, remove_all
from spark_jobs.warehouse.disk import CHANGE_BYTES, file_name, report_full_disk
from spark_jobs.warehouse.files import Staged, TableWriter, Written
from spark_jobs.warehouse.targets import Partition

OWNER = "owner.lock"


class Staging:
    """The new files of one change to the tables below a root.

    They are written to a folder where no reader looks. In an object store they are written to their
    targets. Each has its future partition.

    - files: the files that are complete
    - assigned: all paths that were assigned, also for a task that may write there
    - folder: a folder for temporary files
    """

    def __init__(self, root: Path, folder: Path):
        self.root, self.folder = root, folder
        self.files: list[Written] = []
        self.assigned: list[Staged] = []

    @contextmanager
    def part(self) -> Iterator[Staging]:
        """Yield a Staging for the files of one task, maybe in another process.

        On an error, its files are removed. Raises UserError if the disk is full.
        """
        task_staging = Staging(self.root, self.folder)
        size = 0
        with report_full_disk(self.root, lambda: size + CHANGE_BYTES):
            try:
                yield task_staging
            except BaseException:
                paths = [staged.path for staged in task_staging.assigned]
                size = sum(path.stat().st_size for path in paths if path.exists())
                remove_all(paths)
                raise

    def path(self, table: Table, network: str, date: datetime.date | None, stem: str) -> Staged:
        """Return where to write a Parquet file of a partition.

        stem: the first part of the file's name.
        """
        version = uuid.uuid4().hex
        target = Partition(table, network, date).target(file_name(stem), version[:8])
        path = (
            self.root / target if in_object_store(self.root) else self.folder / f"{version}.parquet"
        )
        self.assigned.append(Staged(target, path))
        return self.assigned[-1]

    @contextmanager
    def writer(
        self,
        table: Table,
        network: str,
        date: datetime.date | None,
        stem: str,
        dictionaries: bool = True,
    ) -> Iterator[TableWriter]:
        """Yield a writer of a file of a partition; dictionaries: see TableWriter."""
        with TableWriter(table, self.path(table, network, date, stem), dictionaries) as writer:
            yield writer
        self.files.append(writer.written)

    def write(
        self, table: Table, network: str, date: datetime.date | None, stem: str, rows: pa.Table
    ) -> None:
        """Write rows, with the schema's columns, as one file of a partition."""
        rows = rows.select(table.arrow.names)
        with self.writer(table, network, date, stem, dictionaries=False) as writer:
            writer.write_table(rows if rows.schema == table.arrow else rows.cast(table.arrow))


def claim_folder(folder: Path) -> IO[str]:
    """Create a folder that is this process's as long as the returned file is open.

    Removes neighbouring folders whose owner was killed. One process at a time may call it.
    """
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
    except OSError:  # its process was killed before it locked the folder
        pass
    shutil.rmtree(folder, ignore_errors=True)
