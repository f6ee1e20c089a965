"""File names, durable writes, and one clear error for a full disk."""

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

from spark_jobs.base.errors import FullDiskError, UserError
from spark_jobs.base.places import NOT_REGULAR, in_object_store, is_irregular

CHANGE_BYTES = 1 << 17
"""The bytes that publishing needs beside the files: pages of the catalog, and its journal."""
MAX_NAME_BYTES = 213
"""Maximum length of a quoted name, so that a file name with additions fits into 255 bytes."""


def file_name(name: str) -> str:
    """Return a name quoted for use as a file name.

    The name is percent-quoted. Of a long name the result has the first part, and a hash of the
    whole name. Quoting the unquoted result again gives the same result.
    """
    quoted, head = quote(name, safe=""), name
    if len(quoted) <= MAX_NAME_BYTES:
        return quoted
    tail = f"~{xxhash.xxh3_128_hexdigest(name.encode())}"
    while len(quote(head, safe="")) > MAX_NAME_BYTES - len(tail):
        head = head[:-1]
    return quote(head, safe="") + tail


@contextmanager
def report_full_disk(path: Path, needed: Callable[[], int]) -> Iterator[None]:
    """Raise FullDiskError if the disk of a file or folder is full, or its user's quota is.

    needed() returns how many bytes must be free at least. It is called after temporary files are
    removed.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = Path(tempfile.gettempdir()) if in_object_store(path) else path
        free = shutil.disk_usage(where if where.exists() else where.parent).free
        missing = needed()
        raise FullDiskError(
            f"{path}: no space left on the device: "
            + (
                f"at least {missing:,} bytes are needed, {free:,} are free"
                if free < missing
                else f"{free:,} bytes are free after unfinished files were removed, which is not "
                "enough"
            )
        ) from error


@contextmanager
def replacing(path: Path, size: int) -> Iterator[Path]:
    """Yield a temporary path; at the end the file there replaces the file at `path`, as a whole.

    size: the expected bytes, for the error message. Raises FullDiskError if the disk is full, and
    UserError if the path is a pipe, a socket or a device.
    """
    if path.exists() and is_irregular(path):
        raise UserError(f"{path}: {NOT_REGULAR}")
    name = f".{path.name}.{uuid.uuid4().hex}"
    temporary = Path(tempfile.gettempdir(), name) if in_object_store(path) else path.parent / name
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


def folder_size(folder: Path) -> int:
    """Return the total size of the files in a folder, in bytes."""
    return sum(path.stat().st_size for path in folder.iterdir())


def sync(path: Path) -> None:
    """Wait until a file's bytes are on disk."""
    with path.open("rb") as f:
        os.fsync(f.fileno())
