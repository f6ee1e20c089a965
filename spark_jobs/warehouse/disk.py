"""Files' names; files written durably; a full disk, told in one line."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import xxhash

from spark_jobs.errors import UserError
from spark_jobs.places import in_object_store

MAX_NAME_BYTES = 213
"""Of a file's name, whose 255 bytes must hold what is put around it, too."""


def file_name(name: str) -> str:
    """A name as a file's: percent-quoted; of a long one the begin, and a hash of all of it. What
    unquote makes of it has the same file name."""
    quoted, head = quote(name, safe=""), name
    if len(quoted) <= MAX_NAME_BYTES:
        return quoted
    tail = f"~{xxhash.xxh3_128_hexdigest(name.encode())}"
    while len(quote(head, safe="")) > MAX_NAME_BYTES - len(tail):
        head = head[:-1]
    return quote(head, safe="") + tail


@contextmanager
def report_full_disk(path: Path, needed: Callable[[], int]) -> Iterator[None]:
    """Raises UserError where a file's or folder's disk, or what of it the user may have, is full;
    needed(): how many bytes there must be room for at least, asked when what was begun is gone."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = Path(tempfile.gettempdir()) if in_object_store(path) else path
        free = shutil.disk_usage(where if where.exists() else where.parent).free
        raise UserError(
            f"{path}: no space left on the device: {needed():,} bytes are needed at least, "
            f"{free:,} are free"
        ) from error


@contextmanager
def replacing(path: Path, size: int) -> Iterator[Path]:
    """A place beside a file to write what is to replace it, of so many bytes; whole or not at all.
    A UserError where the disk is full."""
    name = f".{path.name}.{uuid.uuid4().hex}"
    temporary = Path(tempfile.gettempdir(), name) if in_object_store(path) else path.with_name(name)
    with report_full_disk(path, lambda: size):
        try:
            yield temporary
            if in_object_store(path):
                path.write_bytes(temporary.read_bytes())
            else:
                sync(temporary)
                temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def write_durably(path: Path, text: str) -> None:
    """Replace a file by a text; see replacing."""
    content = text.encode()
    with replacing(path, len(content)) as temporary:
        temporary.write_bytes(content)


def folder_size(folder: Path) -> int:
    """What the files of a folder hold."""
    return sum(path.stat().st_size for path in folder.iterdir())


def sync(path: Path) -> None:
    with path.open("rb") as f:
        os.fsync(f.fileno())
