"""Superset's settings.

They contain no secrets: the key is in a file that setup.sh makes or SUPERSET_SECRET_KEY_FILE names.
"""

import os
import sys
from functools import partial
from pathlib import Path
from sqlite3 import Connection as SQLite

from sqlalchemy import event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import Pool
from superset.config import TALISMAN_CONFIG, THEME_DARK, THEME_DEFAULT

sys.path.append(str(Path(__file__).parent))

from app_hooks import ActionLog, prepare_app
from duckdb_connections import HOME, connect
from roles import countries_in_sql, countries_on_pages

from spark_jobs.base.secret_files import secret_of

SECRET_KEY = secret_of("SUPERSET_SECRET_KEY") or (HOME / "secret_key").read_text().strip()
# The metadata is in SQLite, or in the PostgreSQL database whose address the environment has.
METADATA = make_url(os.environ.get("SUPERSET_METADATA", f"sqlite:///{HOME / 'superset.db'}"))
if password := secret_of("SUPERSET_METADATA_PASSWORD"):
    METADATA = METADATA.set(password=password)
SQLALCHEMY_DATABASE_URI = METADATA.render_as_string(hide_password=False)
SUPERSET_WEBSERVER_ADDRESS = "127.0.0.1"
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_HTTPONLY = True
# Superset's pages contain a picture by which its makers count visits; browsers must not load it.
CONTENT_SOURCES = TALISMAN_CONFIG["content_security_policy"]
CONTENT_SOURCES["img-src"] = [
    source for source in CONTENT_SOURCES["img-src"] if "scarf.sh" not in source
]
# The legend has no buttons, because they take the space of its labels.
LEGEND_THEME = {"echartsOptionsOverrides": {"legend": {"selector": False}}}
# Superset's sign of a chart that loads moves, with filters, also where nobody sees it: the browser
# would draw the page sixty times a second.
SIGN = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 70 20" fill="#9aa5b1">
<circle cx="10" cy="10" r="7"/><circle cx="35" cy="10" r="7"/><circle cx="60" cy="10" r="7"/></svg>
"""
THEME_DEFAULT, THEME_DARK = (
    theme | LEGEND_THEME | {"token": theme["token"] | {"brandSpinnerSvg": SIGN}}
    for theme in (THEME_DEFAULT, THEME_DARK)
)
# The server's address. Superset offers alerts and reports only with it, because alerts.sh, which
# runs them, needs it.
ADDRESS = os.environ.get("SUPERSET_ADDRESS")
if ADDRESS:
    WEBDRIVER_BASEURL = WEBDRIVER_BASEURL_USER_FRIENDLY = f"{ADDRESS}/"
FEATURE_FLAGS = {
    "ALERT_REPORTS": bool(ADDRESS),
    "ALERT_REPORT_WEBHOOK": bool(ADDRESS),
    # Nothing here makes pictures: an alert has a link, a report has its chart's data as CSV.
    "ALERTS_ATTACH_REPORTS": False,
    # Readers do not drill; each of these makes one more request for every dataset of a page.
    "DRILL_BY": False,
    "DRILL_TO_DETAIL": False,
    # Only charts in sight, or nearly, ask for their data.
    "DASHBOARD_VIRTUALIZATION_DEFER_DATA": True,
    # The templates in datasets' SQL get the values of the page's filters.
    "ENABLE_TEMPLATE_PROCESSING": True,
}


def _file_cache(
    folder: str, cache_type: str = "FileSystemCache", timeout_s: int = 24 * 3600
) -> dict:
    """Return the settings of a cache in files, which all workers share."""
    return {
        "CACHE_TYPE": cache_type,
        "CACHE_DIR": str(HOME / folder),
        "CACHE_DEFAULT_TIMEOUT": timeout_s,
        "CACHE_THRESHOLD": 2000,
    }


# Results of queries are valid until a job publishes.
DATA_CACHE_CONFIG = _file_cache("answers", "answer_cache.UntilPublished")
# Data that every page begins with (valid for a minute), and the state of open pages.
CACHE_CONFIG = _file_cache("pages", timeout_s=60)
FILTER_STATE_CACHE_CONFIG = _file_cache("chosen", timeout_s=90 * 24 * 3600)
EXPLORE_FORM_DATA_CACHE_CONFIG = _file_cache("explored", timeout_s=7 * 24 * 3600)

# Users' actions go to a log. In the metadata they would take a third of each request's time.
EVENT_LOGGER = ActionLog(HOME / "actions.log")
FLASK_APP_MUTATOR = prepare_app


PAGES_DATABASE = "warehouse.duckdb"
"""Address of the pages' database in assets/databases; any other is for analysts' SQL."""


def DB_CONNECTION_MUTATOR(  # noqa: N802 (Superset's name)
    uri: URL, params: dict, *_: object
) -> tuple[URL, dict]:
    """Connect each address of DuckDB to the published warehouse, with the user's rows only."""
    if uri.get_backend_name() != "duckdb":
        return uri, params
    countries = countries_on_pages() if uri.database == PAGES_DATABASE else countries_in_sql()
    return uri, params | {"creator": partial(connect, countries)}


@event.listens_for(Pool, "connect")
def configure_sqlite(connection: object, _record: object) -> None:
    """Set up SQLite's connections so that writers of the metadata do not block readers."""
    if isinstance(connection, SQLite):
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = normal")
