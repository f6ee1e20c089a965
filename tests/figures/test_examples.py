"""Marts and numbers of the figures, by the example.toml in each figure's folder.

An example has a few rows of the tables that marts are made from, and all that must come out:

    [[flows]]       A connection. Columns that are not given are those of DEFAULTS, or null.
    users = 10      Ten such connections, each of another user.
    user = 3        The first of these users; 1 if it is not given.

    [[quic_flows]]  A QUIC connection; `users` and `user` as for [[flows]].
    [[stalls]]      A row of another table. With a `flow_id`, it belongs to each connection of
    flow = 2        the second [[flows]], or of the first if this is not given.

    [[mart]]        Counts and sums of the mart's rows, grouped by the other columns given. `users`
                    is the number of their users.
    [[numbers]]     Texts and counts of NUMBERS in numbers.py, grouped by the other columns given.
                    [[thirds]] are those of THIRDS, and so on.
    [usual.mart]    What each [[mart]] has unless it says otherwise; the same for any other name.

If a table leaves out a column to group by, that column is null. If it leaves out a sum or a text,
that is not compared. A time is in UTC, on DAY; the network's clock is an hour ahead.
"""

import tomllib
from collections.abc import Container
from datetime import UTC, datetime, time
from importlib import import_module
from itertools import count
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from conftest import DAY

from schemas import FLOWS, NETWORKS, QUIC_FLOWS, Table
from spark_jobs.figures import FOLDER
from spark_jobs.figures.mart_columns import USER_COUNT, USER_GROUP
from spark_jobs.figures.mart_sql import mart_query, view_statements
from spark_jobs.figures.numbers import Numbers
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.sql_functions import register
from spark_jobs.figures.tables import MARTS, TABLES
from spark_jobs.tables.mart_rows import INPUTS

Rows = list[dict[str, Any]]
Example = dict[str, Rows]

AT = time(10)
DEFAULTS = {
    "network": "n", "date": DAY, "initiator": "mobile",
    "start_ts": AT, "end_ts": AT, "ts": AT, "hour": AT,
}  # fmt: skip
NETWORK = {
    "network": "n", "country": "AA", "access": "gprs", "timezone": "Europe/Budapest",
    "peak_from": 10, "peak_until": 12, "off_peak_from": 3, "off_peak_until": 7,
}  # fmt: skip


def connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    register(connection)
    return connection


def read_example(figure: str) -> Example:
    content = tomllib.loads((FOLDER / figure / "example.toml").read_text())
    usual = content.pop("usual", {})
    return {name: [usual.get(name, {}) | row for row in rows] for name, rows in content.items()}


def create_tables(connection: duckdb.DuckDBPyConnection, rows: Example) -> None:
    """Create the tables that the marts are made from, and the views and functions they use."""
    for table in (*INPUTS, NETWORKS):
        columns = table.arrow_with_partitions
        given = [NETWORK] if table is NETWORKS else rows.get(table.name, [])
        assert {name for row in given for name in row} <= {*columns.names}
        connection.register(table.name, pa.Table.from_pylist(given, columns))
    for statement in view_statements(stored=()):
        connection.execute(statement)


def input_rows(example: Example) -> Example:
    """Return the rows of the tables, with the defaults and a row for each user or connection."""
    numbers = count(1)
    connections: list[Rows] = []
    rows: Example = {}
    for table in INPUTS:
        names = table.arrow_with_partitions.names
        rows[table.name] = []
        for given in example.get(table.name, []):
            values = dict(given)
            if "flow_id" in names and table not in (FLOWS, QUIC_FLOWS):
                owners = connections[values.pop("flow", 1) - 1]
            else:
                first = values.pop("user", 1) - 1
                chosen = range(first, first + values.pop("users", 1))
                owners = [{"user": f"user{n}", "flow_id": next(numbers)} for n in chosen]
            made = [with_dates(picked(DEFAULTS | owner, names) | values) for owner in owners]
            if table is FLOWS:
                connections.append(made)
            rows[table.name] += made
    return rows


def with_dates(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose times of day are times of its date."""
    return {
        name: datetime.combine(row["date"], value, UTC) if isinstance(value, time) else value
        for name, value in row.items()
    }


def names_of(expected: Rows) -> list[str]:
    return list(dict.fromkeys(name for row in expected for name in row))


def mart_sums(connection: duckdb.DuckDBPyConnection, mart: Table, names: list[str]) -> Rows:
    """Return sums of the mart's rows, grouped by those of the columns that are no sums."""
    users = "count(distinct user_group)" if USER_GROUP in mart.columns else USER_COUNT
    of = {name: f"sum({name})" for name in sums_of(mart)} | {"users": users}
    columns = ", ".join(f"{of.get(name, name)} as {name}" for name in names)
    found = connection.sql(f"select {columns} from {mart.name} group by all")
    return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


def sums_of(mart: Table) -> set[str]:
    """Return the names of the mart's counts and sums."""
    numbers = {c.name for c in mart.columns if c.type in ("int64", "double")}
    return numbers - {"bin", *mart.group_columns}


def number_rows(numbers: Numbers, selection: Selection, names: list[str]) -> Rows:
    """Return the numbers as texts, grouped by those of the columns that are no numbers."""
    ratios = {ratio.name for ratio in numbers.ratios}
    by = [name for name in names if name not in values_of(numbers)]
    return [
        {
            n: row.text(n).replace("\N{NO-BREAK SPACE}", " ") if n in ratios else row[n]
            for n in names
        }
        for row in numbers.rows(selection, *by)
    ]


def values_of(numbers: Numbers) -> set[str]:
    return {*(ratio.name for ratio in numbers.ratios), *numbers.counts, *numbers.aggregates}


def assert_equal(found: Rows, expected: Rows, values: set[str]) -> None:
    """Compare rows in any order; of the values, those that an expected row gives."""
    keys = [name for name in names_of(expected) if name not in values]
    nulls = dict.fromkeys(keys)

    def place(row: dict[str, Any]) -> list[tuple]:
        return [(row[key] is not None, row[key]) for key in keys]

    found = sorted(found, key=place)
    wanted = sorted((nulls | row for row in expected), key=place)
    assert [picked(row, keys) for row in found] == [close_to(picked(row, keys)) for row in wanted]
    for row, of in zip(found, wanted, strict=True):
        assert picked(row, of) == close_to(of)


def picked(row: dict[str, Any], names: Container[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name in names}


def close_to(row: dict[str, Any]) -> dict[str, Any]:
    return {name: pytest.approx(value) for name, value in row.items()}


def numbers_of(figure: str) -> dict[str, Numbers]:
    """Return the Numbers in the figure's numbers.py, by their names in its example."""
    if not (FOLDER / figure / "numbers.py").exists():
        return {}
    module = import_module(f"spark_jobs.figures.{figure}.numbers")
    return {
        name.lower(): value for name, value in vars(module).items() if isinstance(value, Numbers)
    }


FIGURES = sorted(path.parent.name for path in FOLDER.glob("*/example.toml"))


def test_every_mart_has_an_example():
    assert sorted(mart.name for mart in MARTS) == FIGURES


@pytest.mark.parametrize("figure", FIGURES)
def test_example(figure):
    example = read_example(figure)
    numbers = numbers_of(figure)
    assert {"mart", *numbers} == example.keys() - {table.name for table in INPUTS}
    connection = connect()
    create_tables(connection, input_rows(example))
    for mart in {figure, *(of.mart.name for of in numbers.values())}:
        connection.execute(f"create table {mart} as {mart_query(TABLES[mart])}")
    mart = TABLES[figure]
    found = mart_sums(connection, mart, names_of(example["mart"]))
    assert_equal(found, example["mart"], sums_of(mart) | {"users"})
    selection = Selection([], DAY, DAY, connection, lambda table, days: table.name)
    for name, of in numbers.items():
        found = number_rows(of, selection, names_of(example[name]))
        assert_equal(found, example[name], values_of(of))
