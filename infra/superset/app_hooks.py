"""Changes to Superset: log, first page, addresses of tabs, SQL Lab, examples, names of networks.

Superset logs actions to a file instead of its metadata. It finds DuckDB's schema without a
connection. SQL Lab queries only the database for analysts, who see the example queries, and keeps
the limit of a query. Users do not see the names of networks whose rows they may not see.
"""

import json
import logging
import os
import re
from pathlib import Path
from typing import Any

from flask import Flask, Response, g, jsonify, redirect, request
from jinja2 import ChoiceLoader, FileSystemLoader
from roles import countries_on_pages
from sqlalchemy.orm import Query
from superset.utils.log import AbstractEventLogger


class ActionLog(AbstractEventLogger):
    """Log of users' actions: a line of JSON for each action."""

    def __init__(self, path: Path) -> None:
        """Make a log that writes to the file `path`."""
        super().__init__()
        handler = logging.FileHandler(path, delay=True)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        self._action_logger = logging.getLogger("giscope.actions")
        self._action_logger.handlers = [handler]
        self._action_logger.propagate = False
        self._action_logger.setLevel(logging.INFO)

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
        """Write one action."""
        entry = {
            "user": user_id, "action": action, "dashboard": dashboard_id, "chart": slice_id,
            "ms": duration_ms, "from": referrer,
        }  # fmt: skip
        self._action_logger.info(json.dumps(entry))


COUNTRIES_FILE = Path(os.environ["SUPERSET_HOME"]) / "countries.json"
EXAMPLES_FILE = COUNTRIES_FILE.with_name("examples.json")
"""The identities of the saved queries that an import made, which all analysts see."""


FIRST_PAGE = "/superset/dashboard/giscope/"
TEMPLATES = Path(__file__).with_name("templates")
"""Folder of templates that take the place of Superset's of the same name."""


def write_countries(countries: dict[str, str]) -> None:
    """Write the country of each network that an import gives a colour."""
    COUNTRIES_FILE.write_text(json.dumps(countries))


def write_examples(uuids: list[str]) -> None:
    """Write the identities of the saved queries that an import made."""
    EXAMPLES_FILE.write_text(json.dumps(uuids))


def prepare_app(app: Flask) -> None:
    """Apply the changes of this module to Superset's application."""
    from duckdb_connections import limit_process_memory
    from superset.db_engine_specs.duckdb import DuckDBEngineSpec

    limit_process_memory()
    app.jinja_loader = ChoiceLoader([FileSystemLoader(TEMPLATES), app.jinja_loader])
    # Every request asks for the default schema: Superset would open the warehouse to find it.
    DuckDBEngineSpec.get_default_schema = classmethod(lambda *_: "main")
    DuckDBEngineSpec.get_schema_names = classmethod(lambda *_: {"main"})
    show_examples()
    keep_queries_limits()
    app.before_request(open_first_dashboard)
    app.before_request(refuse_imports_of_saved_queries)
    app.before_request(refuse_databases_hidden_from_sql_lab)
    app.after_request(remove_hidden_networks)


def open_first_dashboard() -> Any:
    """Send users to the dashboard instead of Superset's welcome page."""
    is_welcome = request.path.rstrip("/") == "/superset/welcome"
    return redirect(FIRST_PAGE) if is_welcome else None


def keep_queries_limits() -> None:
    """Let SQL Lab only lower the limit that a query has, and not replace it by its own.

    Superset 6.1 means to, but forgets the limit that it has read (its issue 40070).
    """
    from superset.sql.parse import LimitMethod, SQLStatement

    set_limit = SQLStatement.set_limit_value

    def lower(
        statement: SQLStatement, limit: int, method: LimitMethod = LimitMethod.FORCE_LIMIT
    ) -> None:
        node, own = statement._parsed.args.get("limit"), statement.get_limit_value()
        if node and (own is None or node.args.get("limit_options")):
            own, method = None, LimitMethod.WRAP_SQL  # an expression, a share, or `fetch first`
        if own is None or own > limit:
            set_limit(statement, limit, method)

    SQLStatement.set_limit_value = lower


def show_examples() -> None:
    """Let everybody who sees saved queries read the examples, too; others' queries stay hidden.

    Only their owner, the administrator, can change or delete them.
    """
    from superset.models.sql_lab import SavedQuery
    from superset.queries.saved_queries.filters import SavedQueryFilter

    def visible(_: SavedQueryFilter, query: Query, __: Any) -> Query:
        is_visible = SavedQuery.created_by == g.user
        if request.method == "GET" and EXAMPLES_FILE.exists():
            is_visible |= SavedQuery.uuid.in_(json.loads(EXAMPLES_FILE.read_text()))
        return query.filter(is_visible)

    SavedQueryFilter.apply = visible


def refuse_imports_of_saved_queries() -> tuple[Response, int] | None:
    """Refuse imports of saved queries, by which an analyst could replace the examples."""
    if request.path.rstrip("/") != "/api/v1/saved_query/import":
        return None
    return jsonify(message="import.sh imports the saved queries"), 403


def refuse_databases_hidden_from_sql_lab() -> tuple[Response, int] | None:
    """Refuse queries of SQL Lab to a database that is not in its list, which Superset would run."""
    from superset import db
    from superset.models.core import Database

    if not request.path.startswith("/api/v1/sqllab/"):
        return None
    arguments = request.get_json(silent=True)
    number = arguments.get("database_id") if isinstance(arguments, dict) else None
    database = db.session.get(Database, number) if number is not None else None
    if database is None or database.expose_in_sqllab:
        return None
    return jsonify(message=f"SQL Lab cannot query the database {database.database_name}"), 403


def remove_hidden_networks(answer: Response) -> Response:
    """Remove networks of other countries from a page's settings, which give each a colour."""
    if not (request.path.startswith("/api/") and answer.is_json and COUNTRIES_FILE.exists()):
        return answer
    visible = countries_on_pages()
    if visible is None or "label_colors" not in (text := answer.get_data(as_text=True)):
        return answer
    countries = json.loads(COUNTRIES_FILE.read_text())
    hidden = tuple(name for name, country in countries.items() if country not in visible)
    answer.set_data(json.dumps(_without_networks(json.loads(text), hidden)))
    return answer


def _without_networks(content: Any, hidden: tuple[str, ...]) -> Any:
    """Return JSON, and JSON in its strings, without the colours of hidden networks."""
    if isinstance(content, list):
        return [_without_networks(part, hidden) for part in content]
    if isinstance(content, str) and content.startswith("{") and "label_colors" in content:
        return json.dumps(_without_networks(json.loads(content), hidden))
    if not isinstance(content, dict):
        return content
    return {
        key: _visible_labels(part, hidden)
        if key.endswith("label_colors")
        else _without_networks(part, hidden)
        for key, part in content.items()
    }


def _visible_labels(labels: Any, hidden: tuple[str, ...]) -> Any:
    """Return labels without hidden networks: a mapping to colours, or a list of shared labels."""
    if isinstance(labels, dict):
        return {
            label: colour for label, colour in labels.items() if not _names_network(label, hidden)
        }
    return [label for label in labels or [] if not _names_network(label, hidden)]


def _names_network(label: str, networks: tuple[str, ...]) -> bool:
    return any(re.match(re.escape(name) + r"(, |__|$)", label) for name in networks)
