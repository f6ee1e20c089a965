"""What of the warehouse a query can reach: the files of the networks whose rows its user may see.

Each choice of countries has a DuckDB file with views of these files only, and a list of the folders
that they lie in, beside which DuckDB is to open none. They are made anew when a job has published.
"""

import json
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Set
from pathlib import Path

import duckdb

FOLDERS = "folders.json"
KEPT_S = 3600
"""As long somebody may still be about to open what was made of an earlier publication."""
TEXT = r"'(?:[^']|'')*'"
FILES = re.compile(rf"list_value\(({TEXT}(?:, {TEXT})*)\)")
QUOTED = re.compile(r"\[([*?[])\]")
"""What would be a pattern to DuckDB (duckdb_paths in spark_jobs/warehouse/views.py)."""
OF_NETWORK = re.compile(r"(.*/network=([^/]+))/(?:date=[^/]+/)?[^/]+")


def publication(views: Path) -> str:
    """Another one whenever a job has published."""
    file = views.stat()
    return f"{file.st_ino}-{file.st_mtime_ns}"


def choice(countries: Set[str] | None) -> str:
    """A name for it."""
    return "all" if countries is None else "+".join(sorted(countries)) or "none"


def views_of(countries: Set[str] | None, views: Path, folder: Path) -> Path:
    """A folder, below the given one, with the views of these countries (None: of all) as they were
    last published, and FOLDERS."""
    made = folder / choice(countries) / publication(views)
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        _remove_earlier(made.parent)
        _make(made, views, countries)
    return made


def _remove_earlier(folder: Path) -> None:
    for earlier in folder.iterdir():
        if time.time() - earlier.stat().st_mtime > KEPT_S:
            shutil.rmtree(earlier, ignore_errors=True)


def _make(made: Path, published: Path, countries: Set[str] | None) -> None:
    with tempfile.TemporaryDirectory(dir=made.parent, ignore_cleanup_errors=True) as folder:
        fresh = Path(folder) / "fresh"
        fresh.mkdir()
        views = fresh / published.name
        if countries is None:
            shutil.copyfile(published, views)
        else:
            with duckdb.connect(published, read_only=True) as whole, duckdb.connect(views) as part:
                part.begin()
                for statement in _views_of(whole, countries):
                    part.execute(statement)
                part.commit()
        with duckdb.connect(views, read_only=True) as connection:
            (fresh / FOLDERS).write_text(json.dumps(_folders(connection)))
        try:
            fresh.rename(made)
        except OSError:
            if not made.exists():  # else another process was faster
                raise


def _views_of(whole: duckdb.DuckDBPyConnection, countries: Set[str]) -> Iterator[str]:
    """The statements that make the views anew over these countries' files, with all comments."""
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
        yield _of_networks(sql, networks) or _empty(view, columns_of[view])
        yield f"comment on view {_name(view)} is {text(comment or '')}"
        for column, _, meaning in columns_of[view]:
            yield f"comment on column {_name(view)}.{_name(column)} is {text(meaning or '')}"


def _of_networks(sql: str, networks: Set[str]) -> str | None:
    """A view's SQL with these networks' files only; None if there are none of them."""

    def kept(files: re.Match[str]) -> str:
        paths = [path for path in re.findall(TEXT, files[1]) if _network(path[1:-1]) in networks]
        return f"list_value({', '.join(paths)})"

    left = FILES.sub(kept, sql)
    return None if "list_value()" in left else left


def _network(path: str) -> str | None:
    found = OF_NETWORK.fullmatch(path)
    return found and found[2]


def _empty(view: str, columns: list[list[str]]) -> str:
    nulls = ", ".join(f"cast(null as {type_}) as {_name(name)}" for name, type_, _ in columns)
    return f"create view {_name(view)} as select {nulls} where false"


def _folders(views: duckdb.DuckDBPyConnection) -> list[str]:
    """Of the networks whose files are read, table by table: as the views name them, and as they are
    called."""
    answer = views.execute("select sql from duckdb_views() where not internal")
    paths = {
        path[1:-1].replace("''", "'")
        for (sql,) in answer.fetchall()
        for files in FILES.finditer(sql)
        for path in re.findall(TEXT, files[1])
    }
    named = {found[1] for path in paths if (found := OF_NETWORK.fullmatch(path))}
    return sorted(named | {QUOTED.sub(r"\1", folder) for folder in named})


def _name(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'


def text(value: str) -> str:
    """In SQL."""
    return "'" + value.replace("'", "''") + "'"
