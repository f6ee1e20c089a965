"""What Superset does otherwise here: it keeps its log in a file, and knows DuckDB's schema."""

import json
import logging
from pathlib import Path
from typing import Any

from flask import Flask
from superset.utils.log import AbstractEventLogger


class Actions(AbstractEventLogger):
    """Who did what, a line of JSON an action."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        handler = logging.FileHandler(path, delay=True)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        self._written = logging.getLogger("giscope.actions")
        self._written.handlers = [handler]
        self._written.propagate = False
        self._written.setLevel(logging.INFO)

    def log(
        self,
        user_id: int | None,
        action: str,
        dashboard_id: int | None,
        duration_ms: int | None,
        slice_id: int | None,
        referrer: str | None,
        *_: Any,
        **__: Any,
    ) -> None:
        told = {
            "user": user_id, "action": action, "dashboard": dashboard_id, "chart": slice_id,
            "ms": duration_ms, "from": referrer,
        }  # fmt: skip
        self._written.info(json.dumps(told))


def prepare(_app: Flask) -> None:
    """Every request asks for the default schema: Superset would open the warehouse to find it."""
    from superset.db_engine_specs.duckdb import DuckDBEngineSpec

    DuckDBEngineSpec.get_default_schema = classmethod(lambda *_: "main")
