"""The versions of the views' file, kept track of as long as somebody reads them.

A reader that opens the file locks it: DuckDB as long as a connection is open (fcntl), lock() as
long as the returned file is open (flock). A new version replaces the file. The old version has a
second name in a folder, by which jobs see whether somebody still has it open.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import IO

SUFFIX = ".duckdb"
LOCK_PROBE = """
import fcntl, sys
for n, path in enumerate(sys.argv[1:]):
    with open(path, "r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print(n)
"""
"""A program that prints the indices of those files that are locked.

It is a process of its own, for closing a file releases all locks that the process has on it.
"""


def link(views: Path, folder: Path, since_ns: int) -> None:
    """Give the file of a new version a second name, which is its time.

    If the file system has no hard links, readers only have the grace time.
    """
    folder.mkdir(exist_ok=True)
    with suppress(OSError):
        os.link(views, folder / f"{since_ns}{SUFFIX}")


def oldest_open_ns(folder: Path, before_ns: int) -> int:
    """Return when the oldest version that somebody may have open was published.

    Returns before_ns if there is no older one. A reader may have opened a version just when it was
    replaced. If that was before before_ns, the reader has locked it by now. So versions that were
    replaced before then, and are not locked, lose their second names.
    """
    versions = sorted(folder.glob(f"*{SUFFIX}"), key=_published_ns)
    replaced_ns = {old: _published_ns(new) for old, new in pairwise(versions)}
    replaced = [version for version in replaced_ns if replaced_ns[version] <= before_ns]
    locked = _locked(replaced)
    for version in set(replaced) - set(locked):
        version.unlink(missing_ok=True)
    in_use = [*locked, *(version for version in replaced_ns if replaced_ns[version] > before_ns)]
    return min([before_ns, *map(_published_ns, in_use)])


def lock(views: Path) -> IO[bytes] | None:
    """Lock the present version of the views; return the open file that holds the lock.

    The files that this version lists stay until the returned file is closed. Returns None if there
    are no views yet, or no lock.
    """
    with suppress(OSError):
        file = views.open("rb")
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return file
    return None


def _published_ns(version: Path) -> int:
    return int(version.name.removesuffix(SUFFIX))


def _locked(versions: list[Path]) -> list[Path]:
    if not versions:
        return []
    command = [sys.executable, "-ISc", LOCK_PROBE, *map(str, versions)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [versions[int(n)] for n in output.split()]
