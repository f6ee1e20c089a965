"""Superset's settings. Nothing secret here: the key is made at first start by setup.sh."""

import os
from pathlib import Path

HOME = Path(os.environ["SUPERSET_HOME"])

SECRET_KEY = (HOME / "secret_key").read_text().strip()
# Metadata: SQLite locally; a PostgreSQL address in the environment elsewhere.
SQLALCHEMY_DATABASE_URI = os.environ.get("SUPERSET_METADATA", f"sqlite:///{HOME / 'superset.db'}")
SUPERSET_WEBSERVER_ADDRESS = "127.0.0.1"
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_HTTPONLY = True
