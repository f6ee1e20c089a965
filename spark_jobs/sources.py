"""Which version of the code made something."""

from functools import cache
from hashlib import blake2b
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def version(*rooms: str) -> str:
    """A hash of the files in some rooms, as 'spark_jobs/report': another one where one changed."""
    digest = blake2b(digest_size=8)
    found = {path for room in rooms for path in (ROOT / room).rglob("*.*")}
    for path in sorted(path for path in found if "__pycache__" not in path.parts):
        digest.update(path.read_bytes())
    return digest.hexdigest()
