"""Superset's settings. Nothing secret here: setup.sh makes the key, or a file has it that
SUPERSET_SECRET_KEY_FILE names."""

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

from connections import HOME, connect
from hooks import Actions, prepare
from roles import countries_in_sql, countries_on_pages

from spark_jobs.secret_files import secret_of

SECRET_KEY = secret_of("SUPERSET_SECRET_KEY") or (HOME / "secret_key").read_text().strip()
# Metadata: SQLite locally; a PostgreSQL address in the environment elsewhere.
METADATA = make_url(os.environ.get("SUPERSET_METADATA", f"sqlite:///{HOME / 'superset.db'}"))
if password := secret_of("SUPERSET_METADATA_PASSWORD"):
    METADATA = METADATA.set(password=password)
SQLALCHEMY_DATABASE_URI = METADATA.render_as_string(hide_password=False)
SUPERSET_WEBSERVER_ADDRESS = "127.0.0.1"
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_HTTPONLY = True
# Superset's pages would tell its makers of every visit by a picture of theirs.
ALLOWED = TALISMAN_CONFIG["content_security_policy"]
ALLOWED["img-src"] = [source for source in ALLOWED["img-src"] if "scarf.sh" not in source]
# Buttons beside a legend take the place of its names.
LEGENDS = {"echartsOptionsOverrides": {"legend": {"selector": False}}}
THEME_DEFAULT, THEME_DARK = THEME_DEFAULT | LEGENDS, THEME_DARK | LEGENDS
FEATURE_FLAGS = {
    # Pages are read here, and each of these asks the server once more for every dataset of a page.
    "DRILL_BY": False,
    "DRILL_TO_DETAIL": False,
    # The dates that are chosen reach the SQL of what is compared.
    "ENABLE_TEMPLATE_PROCESSING": True,
}


def _kept(folder: str, kind: str = "FileSystemCache", seconds: int = 24 * 3600) -> dict:
    """In files, which all workers read."""
    return {
        "CACHE_TYPE": kind,
        "CACHE_DIR": str(HOME / folder),
        "CACHE_DEFAULT_TIMEOUT": seconds,
        "CACHE_THRESHOLD": 2000,
    }


# Answers, by role and filters, until a job publishes.
DATA_CACHE_CONFIG = _kept("answers", "answers.UntilPublished")
# What every page begins with (kept for a minute), and what is chosen on open pages.
CACHE_CONFIG = _kept("pages", seconds=60)
FILTER_STATE_CACHE_CONFIG = _kept("chosen", seconds=90 * 24 * 3600)
EXPLORE_FORM_DATA_CACHE_CONFIG = _kept("explored", seconds=7 * 24 * 3600)

# Who did what: a line in a log. In the metadata it would take a third of each request's time.
EVENT_LOGGER = Actions(HOME / "actions.log")
FLASK_APP_MUTATOR = prepare


PAGES = "warehouse.duckdb"
"""The address of the pages' database, as in assets/databases; others are for analysts' SQL."""


def DB_CONNECTION_MUTATOR(  # noqa: N802 (Superset's name)
    uri: URL, params: dict, *_: object
) -> tuple[URL, dict]:
    """Whatever file of DuckDB is asked for, it is the warehouse as it was last published, with what
    the present user may see of it."""
    if uri.get_backend_name() != "duckdb":
        return uri, params
    countries = countries_on_pages() if uri.database == PAGES else countries_in_sql()
    return uri, params | {"creator": partial(connect, countries)}


@event.listens_for(Pool, "connect")
def make_nobody_wait(connection: object, _record: object) -> None:
    """For what is written, where the metadata is in SQLite."""
    if isinstance(connection, SQLite):
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = normal")
