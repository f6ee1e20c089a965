"""The version of giscope, of parts of its code as hashes, and the folder of compiled functions."""

import os
import sys
from functools import cache
from hashlib import blake2b
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]

COMPILED_ROOMS = ("spark_jobs/compiled", "spark_jobs/capture", "spark_jobs/estimators", "schemas")
"""Packages with compiled functions, or with constants that are compiled in."""
COMPILED_PREFIX = "numba-"
"""Prefix of the names of folders with compiled functions."""
ENTRIES = ROOT / "spark_jobs" / "compiled" / "entries.jsonl"
"""File that lists the functions to compile (see compiled/entries.py)."""
MACHINE_CODE = ROOT / "spark_jobs" / "machine_code"
"""Folder with all compiled functions, which a wheel or an image may have (see docs/deploy.md)."""


def giscope_version() -> str:
    """Return the version of giscope that is installed."""
    return metadata.version("giscope")


@cache
def version(*rooms: str) -> str:
    """Return a hash of some modules' files and of the files in packages, as 'spark_jobs/report'.

    The hash changes if a file changes.
    """
    digest = blake2b(digest_size=8)
    found = {path for room in rooms for path in [ROOT / room, *(ROOT / room).rglob("*.*")]}
    for path in sorted(found - {ENTRIES}):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def compiled_folder() -> Path:
    """Return the folder of compiled functions.

    This is NUMBA_CACHE_DIR; or MACHINE_CODE if it was made of these very sources, with these
    versions of Python and Numba; or else a folder for them in the user's cache.
    """
    if "NUMBA_CACHE_DIR" in os.environ:
        return Path(os.environ["NUMBA_CACHE_DIR"])
    if complete_marker(MACHINE_CODE).exists():
        return MACHINE_CODE
    return cache_folder() / f"{COMPILED_PREFIX}{_compiled_version()}"


def cache_folder() -> Path:
    """Return giscope's folder in the user's cache: what is there can be made again."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "giscope"


def complete_marker(folder: Path) -> Path:
    """Return the file that says that a folder has all compiled functions of these sources."""
    return folder / f"complete-{_compiled_version()}"


@cache
def _compiled_version() -> str:
    """Return a hash of the sources with compiled functions, and of what compiles them."""
    parts = version(*COMPILED_ROOMS), sys.implementation.cache_tag, metadata.version("numba")
    return blake2b("-".join(map(str, parts)).encode(), digest_size=8).hexdigest()
