"""What Superset does otherwise here: it keeps its log in a file, knows DuckDB's schema, asks one
database only in SQL Lab, and tells nobody the names of networks whose rows he may not see."""

import json
import logging
import os
import re
from pathlib import Path
from typing import Any

from flask import Flask, Response, jsonify, request
from roles import countries_on_pages
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


COUNTRIES = Path(os.environ["SUPERSET_HOME"]) / "countries.json"


def write_countries(countries: dict[str, str]) -> None:
    """Each network's country, of what an import gives colours."""
    COUNTRIES.write_text(json.dumps(countries))


def prepare(app: Flask) -> None:
    from connections import keep_within_memory
    from superset.db_engine_specs.duckdb import DuckDBEngineSpec

    keep_within_memory()
    # Every request asks for the default schema: Superset would open the warehouse to find it.
    DuckDBEngineSpec.get_default_schema = classmethod(lambda *_: "main")
    DuckDBEngineSpec.get_schema_names = classmethod(lambda *_: {"main"})
    app.before_request(only_where_sql_is_written)
    app.after_request(without_others)


def only_where_sql_is_written() -> Response | None:
    """Superset keeps a database out of SQL Lab's list, but would run what is asked of it."""
    from superset import db
    from superset.models.core import Database

    if not request.path.startswith("/api/v1/sqllab/"):
        return None
    asked = request.get_json(silent=True)
    number = asked.get("database_id") if isinstance(asked, dict) else None
    database = db.session.get(Database, number) if number is not None else None
    if database is None or database.expose_in_sqllab:
        return None
    answer = jsonify(message=f"{database.database_name} is not asked in SQL Lab")
    answer.status_code = 403
    return answer


def without_others(answer: Response) -> Response:
    """A page's settings have a colour for each network: those of other countries are left out."""
    if not (request.path.startswith("/api/") and answer.is_json and COUNTRIES.exists()):
        return answer
    seen = countries_on_pages()
    if seen is None or "label_colors" not in (text := answer.get_data(as_text=True)):
        return answer
    countries = json.loads(COUNTRIES.read_text())
    hidden = tuple(name for name, country in countries.items() if country not in seen)
    answer.set_data(json.dumps(_without(json.loads(text), hidden)))
    return answer


def _without(told: Any, hidden: tuple[str, ...]) -> Any:
    """JSON, and JSON in its texts, without the colours of hidden networks."""
    if isinstance(told, list):
        return [_without(part, hidden) for part in told]
    if isinstance(told, str) and told.startswith("{") and "label_colors" in told:
        return json.dumps(_without(json.loads(told), hidden))
    if not isinstance(told, dict):
        return told
    return {
        key: _left(part, hidden) if key.endswith("label_colors") else _without(part, hidden)
        for key, part in told.items()
    }


def _left(labels: Any, hidden: tuple[str, ...]) -> Any:
    """Labels with their colours, or a list of labels that several charts have."""
    if isinstance(labels, dict):
        return {label: colour for label, colour in labels.items() if not _of(label, hidden)}
    return [label for label in labels or [] if not _of(label, hidden)]


def _of(label: str, networks: tuple[str, ...]) -> bool:
    return any(re.match(re.escape(name) + r"( |__|$)", label) for name in networks)
