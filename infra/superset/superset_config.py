"""Superset's settings. Nothing secret here: the key is made at first start by setup.sh."""

import os
from pathlib import Path

from sqlalchemy.engine import URL

HOME = Path(os.environ["SUPERSET_HOME"])

SECRET_KEY = (HOME / "secret_key").read_text().strip()
# Metadata: SQLite locally; a PostgreSQL address in the environment elsewhere.
SQLALCHEMY_DATABASE_URI = os.environ.get("SUPERSET_METADATA", f"sqlite:///{HOME / 'superset.db'}")
SUPERSET_WEBSERVER_ADDRESS = "127.0.0.1"
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_HTTPONLY = True


def DB_CONNECTION_MUTATOR(  # noqa: N802 (Superset's name)
    uri: URL, params: dict, *_: object
) -> tuple[URL, dict]:
    """The warehouse's views, read only, with no other file in reach.

    Superset opens a connection a query, so it sees what the last job published.
    """
    warehouse = Path(os.environ["GISCOPE_WAREHOUSE"]).resolve()
    config = {
        "allowed_directories": [str(warehouse)],
        "enable_external_access": False,
        "timezone": "UTC",
        "lock_configuration": True,
    }
    params["connect_args"] = {"read_only": True, "config": config}
    return uri.set(database=str(warehouse / "warehouse.duckdb")), params
