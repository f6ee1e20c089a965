"""The versions of the views, as long as somebody reads by them.

Who opens the views' file locks it: DuckDB as long as a connection is open (fcntl), hold() as long
as what it returns is (flock). A new version takes the old one's place, but that one has a second
name here, by which jobs see whether somebody has it open still.
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
"""A process of its own: closing a file lets go of all locks that this one has on it."""


def link(views: Path, folder: Path, since_ns: int) -> None:
    """Give the file of a new version a second name, its time; where the file system has no hard
    links, only the grace time is left to those who read."""
    folder.mkdir(exist_ok=True)
    with suppress(OSError):
        os.link(views, folder / f"{since_ns}{SUFFIX}")


def oldest_open_ns(folder: Path, before_ns: int) -> int:
    """Since when the oldest version is there that somebody may have open; `before_ns`, if none is
    older. Whoever opened a version just when it was replaced has locked it by now, if that was
    before `before_ns`: those of then that are not open are forgotten."""
    versions = sorted(folder.glob(f"*{SUFFIX}"), key=_published_ns)
    replaced_ns = {old: _published_ns(new) for old, new in pairwise(versions)}
    replaced = [version for version in replaced_ns if replaced_ns[version] <= before_ns]
    locked = _locked(replaced)
    for version in set(replaced) - set(locked):
        version.unlink(missing_ok=True)
    in_use = [*locked, *(version for version in replaced_ns if replaced_ns[version] > before_ns)]
    return min([before_ns, *map(_published_ns, in_use)])


def lock(views: Path) -> IO[bytes] | None:
    """Keep the files that this version of the views lists until what is returned is closed; None
    where there are no views yet, or no lock."""
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
