"""Views of the files of those networks whose rows a user may see.

Each set of countries has a DuckDB file with views of these files only, and a list of the folders of
these files. DuckDB may open no other folders. Both are made again after a job has published.
"""

import json
import shutil
import tempfile
import time
from collections.abc import Set
from pathlib import Path

import duckdb

from spark_jobs.queries.views import create_views, folders, read_description, restricted_views

FOLDERS_FILE = "folders.json"
KEEP_S = 3600
"""Minimum age of an earlier publication's views that are removed: users may still open them (s)."""


def publication(views: Path) -> str:
    """Return an identifier of the publication, which changes whenever a job publishes."""
    file = views.stat()
    return f"{file.st_ino}-{file.st_mtime_ns}"


def countries_key(countries: Set[str] | None) -> str:
    """Return a name for a set of countries."""
    return "all" if countries is None else "+".join(sorted(countries)) or "none"


def country_views_folder(countries: Set[str] | None, views: Path, folder: Path) -> Path:
    """Return the folder with these countries' views, as last published, and FOLDERS_FILE.

    It is made below `folder` if it is not there. countries: None means all.
    """
    target = folder / countries_key(countries) / publication(views)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_earlier(target.parent)
        _make_folder(target, views, countries)
    return target


def _remove_earlier(folder: Path) -> None:
    for earlier in folder.iterdir():
        if time.time() - earlier.stat().st_mtime > KEEP_S:
            shutil.rmtree(earlier, ignore_errors=True)


def _make_folder(target: Path, published: Path, countries: Set[str] | None) -> None:
    views = restricted_views(read_description(published), countries)
    with tempfile.TemporaryDirectory(dir=target.parent, ignore_cleanup_errors=True) as folder:
        fresh = Path(folder) / "fresh"
        fresh.mkdir()
        with duckdb.connect(fresh / published.name) as connection:
            create_views(connection, views)
        (fresh / FOLDERS_FILE).write_text(json.dumps(folders(views)))
        try:
            fresh.rename(target)
        except OSError:
            if not target.exists():  # else another process was faster
                raise
