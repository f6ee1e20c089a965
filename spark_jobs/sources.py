"""Which version of the code made something."""

import os
from functools import cache
from hashlib import blake2b
from pathlib import Path

ROOT = Path(__file__).parents[1]

COMPILED_ROOMS = ("spark_jobs/compiled", "spark_jobs/capture", "spark_jobs/estimators", "schemas")
"""Rooms with compiled functions, or with constants that are compiled in."""
COMPILED_PREFIX = "numba-"
"""What the names of folders of compiled functions begin with."""
ENTRIES = ROOT / "spark_jobs" / "compiled" / "entries.jsonl"
"""What is to be compiled: see compiled/entries.py."""


@cache
def version(*rooms: str) -> str:
    """A hash of the files in some rooms, as 'spark_jobs/report': another one where one changed."""
    digest = blake2b(digest_size=8)
    found = {path for room in rooms for path in (ROOT / room).rglob("*.*")} - {ENTRIES}
    for path in sorted(path for path in found if "__pycache__" not in path.parts):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def compiled_folder() -> Path:
    """Where Numba keeps compiled functions: a folder of these very sources, for Numba itself looks
    only at the file of the function that it compiles, not at what that function calls; or
    NUMBA_CACHE_DIR."""
    if "NUMBA_CACHE_DIR" in os.environ:
        return Path(os.environ["NUMBA_CACHE_DIR"])
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "giscope" / f"{COMPILED_PREFIX}{version(*COMPILED_ROOMS)}"
