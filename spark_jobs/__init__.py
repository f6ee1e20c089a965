"""giscope's jobs: captures to packets, packets to flows, flows to marts, marts to a report."""

import os
from hashlib import blake2b
from pathlib import Path


def _compiled_code_folder() -> Path:
    """Where Numba keeps compiled functions: a folder of these very sources, for Numba itself looks
    only at the file of the function that it compiles, not at what that function calls."""
    sources = blake2b(digest_size=8)
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        sources.update(path.read_bytes())
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "giscope" / f"numba-{sources.hexdigest()}"


os.environ.setdefault("NUMBA_CACHE_DIR", str(_compiled_code_folder()))
