"""The tables' views in SQL, with the rows of all networks or of those of some countries only.

Each table with days also has a view without held days, such as published_flows.
A view is described by its columns and by its files, network by network. The warehouse stores this
description in the file of its views (spark_jobs/warehouse/views.py), so that others can make views
of some countries' rows and need not parse SQL. Superset's environment imports this module: it needs
only DuckDB and the standard library.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from spark_jobs.base.errors import UserError

if TYPE_CHECKING:
    import duckdb

PUBLISHED = "published_"
"""Prefix of the name of a view without held days."""
CHECKS = "quality"
"""The view of the checks that hold days."""
SCHEMA = "giscope"
"""The schema, in the file of the views, of their description and of their macros."""
DESCRIPTION = f"{SCHEMA}.description"
"""The table with the description of the views."""
FORMAT = 1
"""The format of descriptions. Raise it if View, Files or Column change."""
QUOTED_WILDCARDS = str.maketrans({character: f"[{character}]" for character in "*?["})


class Column(NamedTuple):
    """A column of a view, with its type in SQL."""

    name: str
    type: str
    comment: str


class Files(NamedTuple):
    """Files of a view in one network's folder, which have the same columns.

    - network: the network to which their rows belong; None if they belong to no network
    - folder: the folder of this network's rows, which holds no others
    - names: the files' paths in the folder
    - layout: the layout of the files; "" for files of another format, whose columns may differ
    """

    network: str | None
    folder: str
    names: list[str]
    layout: str


class View(NamedTuple):
    """The description of a view.

    - owner: the column with the network to which a row belongs; None: rows belong to no network
    - partitions: the columns that are in the names of the files' folders
    - columns: the other columns
    """

    name: str
    comment: str
    owner: str | None
    partitions: list[Column]
    columns: list[Column]
    files: list[Files]


class Description(NamedTuple):
    """The description of all views of a warehouse. countries: the country of each network."""

    countries: Mapping[str, str]
    views: list[View]


def restricted_views(description: Description, countries: Set[str] | None) -> list[View]:
    """Return the views with the files of these countries' networks only; None: all files.

    A view whose rows belong to no network is left out, and so is a network of unknown country.
    """
    if countries is None:
        return description.views
    networks = {name for name, country in description.countries.items() if country in countries}
    return [
        view._replace(files=[files for files in view.files if files.network in networks])
        for view in description.views
        if view.owner
    ]


def folders(views: Iterable[View]) -> list[str]:
    """Return the networks' folders that the views read, each also with its quoted name."""
    found = {files.folder for view in views for files in view.files}
    return sorted(found | {quoted_path(folder) for folder in found})


def create_views(
    connection: duckdb.DuckDBPyConnection, views: Iterable[View], with_comments: bool = True
) -> None:
    """Create the views, and those without held days, in one transaction; see view_statements."""
    connection.begin()
    for statement in view_statements(views, query_of, with_comments):
        connection.execute(statement)
    connection.commit()


def view_statements(
    views: Iterable[View], rows_of: Callable[[View], str], with_comments: bool = True
) -> Iterator[str]:
    """Yield the statements that create the views, and those without held days.

    Without the view of the checks, there are no views without held days. rows_of: returns the query
    of a view's rows. with_comments: comment on tables and columns, which takes most of the time.
    """
    views = [*views]
    queries = [(view, rows_of(view)) for view in views]
    if any(view.name == CHECKS for view in views):
        queries += [
            (_published(view), published_query(view.name))
            for view in views
            if has_days(view.name, (column.name for column in view.partitions))
        ]
    for view, query in queries:
        yield f"create view {identifier(view.name)} as {query}"
        if with_comments:
            yield ";".join(_comments(view))


def macro_statement(view: View) -> str:
    """Return the statement that creates or replaces a view's macro, which reads its files."""
    return f"create or replace macro {_macro(view)} as table {query_of(view)}"


def macro_query(view: View) -> str:
    """Return the query that reads a view's macro.

    A view of this query, and its comments, stay when the macro is replaced.
    """
    return f"from {_macro(view)}"


def _macro(view: View) -> str:
    return f"{SCHEMA}.{identifier(view.name)}()"


def _published(view: View) -> View:
    return view._replace(name=PUBLISHED + view.name, comment=f"{view.comment}, of a day not held")


def has_days(table: str, partitions: Iterable[str]) -> bool:
    """Return whether a table has rows of days that checks may hold, and so a published view."""
    return table != CHECKS and {"network", "date"} <= {*partitions}


def published_query(name: str) -> str:
    """Return the query of a view's rows without held days, for DuckDB and Spark.

    A day is held if one of its checks failed and nobody released it.
    """
    held = f"select network, date from {CHECKS} where not passed and released is null"
    return f"select * from {name} anti join ({held}) using (network, date)"


def _comments(view: View) -> Iterator[str]:
    name = identifier(view.name)
    yield f"comment on view {name} is {string_literal(view.comment)}"
    for column in (*view.partitions, *view.columns):
        named = f"{name}.{identifier(column.name)}"
        yield f"comment on column {named} is {string_literal(column.comment)}"


def query_of(view: View) -> str:
    """Return the query that reads a view's files.

    A column that a file lacks is null. To see the columns of files, DuckDB opens each of them. Of
    files of one layout, it opens only the first, and then those that a query needs.
    """
    columns = (*view.partitions, *view.columns)
    nulls = ", ".join(f"cast(null as {c.type}) as {identifier(c.name)}" for c in columns)
    by_layout: dict[str, list[str]] = defaultdict(list)
    for files in view.files:
        by_layout[files.layout] += [quoted_path(f"{files.folder}/{name}") for name in files.names]
    reads = [_read(view, by_layout[layout], layout) for layout in sorted(by_layout, reverse=True)]
    rows = " union all by name ".join([f"select {nulls} where false", *reads])
    if "" not in by_layout:
        return rows
    return f"select {', '.join(identifier(c.name) for c in columns)} from ({rows})"


def _read(view: View, paths: list[str], layout: str) -> str:
    """Return the query that reads files with their partition columns."""
    hive = ", ".join(f"{string_literal(c.name)}: {string_literal(c.type)}" for c in view.partitions)
    return (
        f"select * from read_parquet([{', '.join(map(string_literal, paths))}], "
        f"union_by_name = {not layout}, hive_partitioning = true, hive_types = {{{hive}}})"
    )


def write_description(connection: duckdb.DuckDBPyConnection, description: Description) -> None:
    """Store the description in a database, which has SCHEMA."""
    connection.execute(
        f"create table {DESCRIPTION} as select $1 as format, $2 as content",
        [FORMAT, json.dumps(description)],
    )


def read_description(path: Path) -> Description:
    """Return the description that is stored in a file of views.

    Raises UserError if it is missing or of another format.
    """
    import duckdb

    with duckdb.connect(path, read_only=True) as connection:
        try:
            [(format_, content)] = connection.execute(f"from {DESCRIPTION}").fetchall()
        except duckdb.CatalogException:
            format_ = None
    if format_ != FORMAT:
        raise UserError(
            f"{path}: written by another version of giscope, so it is not known whose rows its "
            "views have: run giscope maintain"
        )
    countries, views = json.loads(content)
    return Description(countries, [_view(*fields) for fields in views])


def _view(name: str, comment: str, owner: str | None, *details: list[list]) -> View:
    partitions, columns, files = details
    return View(
        name,
        comment,
        owner,
        [Column(*fields) for fields in partitions],
        [Column(*fields) for fields in columns],
        [Files(*fields) for fields in files],
    )


def quoted_path(path: str) -> str:
    """Return a path for DuckDB's read_parquet, to which *, ? and [ are wildcards."""
    return path.translate(QUOTED_WILDCARDS)


def identifier(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def string_literal(value: str) -> str:
    """Return a string as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"
