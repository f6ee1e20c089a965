"""Versions of the code, as hashes of its files, and the folder of its compiled functions."""

import os
from functools import cache
from hashlib import blake2b
from pathlib import Path

ROOT = Path(__file__).parents[1]

COMPILED_ROOMS = ("spark_jobs/compiled", "spark_jobs/capture", "spark_jobs/estimators", "schemas")
"""Packages with compiled functions, or with constants that are compiled in."""
COMPILED_PREFIX = "numba-"
"""Prefix of the names of folders with compiled functions."""
ENTRIES = ROOT / "spark_jobs" / "compiled" / "entries.jsonl"
"""File that lists the functions to compile (see compiled/entries.py)."""


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
    """Return the folder of compiled functions: NUMBA_CACHE_DIR, or one for these very sources."""
    if "NUMBA_CACHE_DIR" in os.environ:
        return Path(os.environ["NUMBA_CACHE_DIR"])
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "giscope" / f"{COMPILED_PREFIX}{version(*COMPILED_ROOMS)}"
