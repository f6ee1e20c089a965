"""Superset's cache of answers: they hold until a job publishes."""

import os
from pathlib import Path
from typing import Any

from flask_caching.backends import FileSystemCache

VIEWS = Path(os.environ["GISCOPE_WAREHOUSE"]).resolve() / "warehouse.duckdb"


class UntilPublished(FileSystemCache):
    """Keys tell which views' file was asked: every publication makes another."""

    def _of_views(self, key: str) -> str:
        views = VIEWS.stat()
        return f"{views.st_ino}-{views.st_mtime_ns}-{key}"

    def get(self, key: str) -> Any:
        return super().get(self._of_views(key))

    def set(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        return super().set(self._of_views(key), value, *args, **kwargs)
