"""Views of the files of those networks whose rows a user may see.

Each set of countries has a DuckDB file with views of these files only, and a list of the folders of
these files. DuckDB may open no other folders. Both are made again after a job has published.
"""

import json
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Set
from pathlib import Path

import duckdb

FOLDERS_FILE = "folders.json"
KEEP_S = 3600
"""Minimum age of an earlier publication's views that are removed: users may still open them (s)."""
STRING_LITERAL = r"'(?:[^']|'')*'"
FILE_LIST = re.compile(rf"list_value\(({STRING_LITERAL}(?:, {STRING_LITERAL})*)\)")
QUOTED_WILDCARD = re.compile(r"\[([*?[])\]")
"""Wildcard of DuckDB, quoted in a path (duckdb_paths in spark_jobs/warehouse/views.py)."""
NETWORK_FOLDER = re.compile(r"(.*/network=([^/]+))/(?:date=[^/]+/)?[^/]+")


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
    with tempfile.TemporaryDirectory(dir=target.parent, ignore_cleanup_errors=True) as folder:
        fresh = Path(folder) / "fresh"
        fresh.mkdir()
        views = fresh / published.name
        if countries is None:
            shutil.copyfile(published, views)
        else:
            with duckdb.connect(published, read_only=True) as whole, duckdb.connect(views) as part:
                part.begin()
                for statement in _view_statements(whole, countries):
                    part.execute(statement)
                part.commit()
        with duckdb.connect(views, read_only=True) as connection:
            (fresh / FOLDERS_FILE).write_text(json.dumps(_network_folders(connection)))
        try:
            fresh.rename(target)
        except OSError:
            if not target.exists():  # else another process was faster
                raise


def _view_statements(whole: duckdb.DuckDBPyConnection, countries: Set[str]) -> Iterator[str]:
    """Yield the statements that make the views over these countries' files, with all comments."""
    networks = {
        network
        for network, country in whole.execute("select network, country from networks").fetchall()
        if country in countries
    }
    columns = whole.execute("""
        select table_name, list([column_name, data_type, comment] order by column_index)
        from duckdb_columns() where not internal group by all
    """)
    columns_of = dict(columns.fetchall())
    views = whole.execute("select view_name, sql, comment from duckdb_views() where not internal")
    for view, sql, comment in views.fetchall():
        yield _restricted_view(sql, networks) or _empty_view(view, columns_of[view])
        yield f"comment on view {_identifier(view)} is {string_literal(comment or '')}"
        for column, _, meaning in columns_of[view]:
            name = f"{_identifier(view)}.{_identifier(column)}"
            yield f"comment on column {name} is {string_literal(meaning or '')}"


def _restricted_view(sql: str, networks: Set[str]) -> str | None:
    """Return a view's SQL with these networks' files only; None: they have no files."""

    def restricted_list(files: re.Match[str]) -> str:
        paths = [
            path
            for path in re.findall(STRING_LITERAL, files[1])
            if _network_of(path[1:-1]) in networks
        ]
        return f"list_value({', '.join(paths)})"

    restricted = FILE_LIST.sub(restricted_list, sql)
    return None if "list_value()" in restricted else restricted


def _network_of(path: str) -> str | None:
    found = NETWORK_FOLDER.fullmatch(path)
    return found and found[2]


def _empty_view(view: str, columns: list[list[str]]) -> str:
    nulls = ", ".join(f"cast(null as {type_}) as {_identifier(name)}" for name, type_, _ in columns)
    return f"create view {_identifier(view)} as select {nulls} where false"


def _network_folders(views: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the folders of the networks whose files the views read, table by table.

    A folder is in the list with the quoted name that the views use, and with its real name.
    """
    answer = views.execute("select sql from duckdb_views() where not internal")
    paths = {
        path[1:-1].replace("''", "'")
        for (sql,) in answer.fetchall()
        for files in FILE_LIST.finditer(sql)
        for path in re.findall(STRING_LITERAL, files[1])
    }
    quoted = {found[1] for path in paths if (found := NETWORK_FOLDER.fullmatch(path))}
    return sorted(quoted | {QUOTED_WILDCARD.sub(r"\1", folder) for folder in quoted})


def _identifier(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'


def string_literal(value: str) -> str:
    """Return a string as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"
