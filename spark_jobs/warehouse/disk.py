"""Files written durably; a full disk, told in one line."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_jobs.errors import UserError


@contextmanager
def told_if_full(place: Path, needed: Callable[[], int]) -> Iterator[None]:
    """Raises UserError where the disk (or what of it the user may have) is full; needed(): how many
    bytes there must be room for at least, asked when it is."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        free = shutil.disk_usage(place).free
        raise UserError(
            f"{place}: no space left on the device: {needed():,} bytes are needed at least, "
            f"{free:,} are free"
        ) from error


def bytes_in(folder: Path) -> int:
    """What the files of a folder hold."""
    return sum(path.stat().st_size for path in folder.iterdir())


def sync(path: Path) -> None:
    with path.open("rb") as f:
        os.fsync(f.fileno())


def write_durably(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with told_if_full(path.parent, lambda: len(text)):
        try:
            with temporary.open("w") as f:
                f.write(text)
                f.flush()
                os.fsync(f.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
