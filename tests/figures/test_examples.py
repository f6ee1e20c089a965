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
    [[numbers]]     Texts and counts of NUMBERS, grouped by the other columns given.
                    [[thirds]] are those of THIRDS, and so on.
    [usual.mart]    What each [[mart]] has unless it says otherwise; the same for any other name.

If a table leaves out a column to group by, that column is null. If it leaves out a sum or a text,
that is not compared. A time is in UTC, on DAY; the network's clock is an hour ahead.
"""

import tomllib
from importlib import import_module
from typing import Any

import duckdb
import pytest
from conftest import DAY

from schemas import Table
from spark_jobs.figures import FOLDER
from spark_jobs.figures.mart_columns import USER_COUNT, USER_GROUP
from spark_jobs.figures.mart_sql import mart_query
from spark_jobs.figures.numbers import Numbers
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.tables import MARTS, TABLES
from spark_jobs.tables.mart_rows import INPUTS
from tests.helpers.mart_examples import Example, Rows, connect, create_tables, input_rows, picked


def read_example(figure: str) -> Example:
    content = tomllib.loads((FOLDER / figure / "example.toml").read_text())
    usual = content.pop("usual", {})
    return {name: [usual.get(name, {}) | row for row in rows] for name, rows in content.items()}


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


def close_to(row: dict[str, Any]) -> dict[str, Any]:
    return {name: pytest.approx(value) for name, value in row.items()}


def numbers_of(figure: str) -> dict[str, Numbers]:
    """Return the figure's Numbers, by their names in its example."""
    return {
        name.lower(): value
        for file in ("numbers", "figure")
        if (FOLDER / figure / f"{file}.py").exists()
        for name, value in vars(import_module(f"spark_jobs.figures.{figure}.{file}")).items()
        if isinstance(value, Numbers)
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
