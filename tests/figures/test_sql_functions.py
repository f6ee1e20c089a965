"""The statistics as functions of SQL: many rows at once, as Python computes them one by one."""

import re

import duckdb
import numpy as np
import pandas as pd
import pytest
from conftest import ROOT
from statsmodels.stats.multitest import multipletests

from spark_jobs.figures.sql_functions import register
from spark_jobs.figures.statistics import Sums, difference_intervals, mean, share


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    """A database with 5,000 rows of 0 to 20 user groups, in two halves: more than DuckDB gives a
    function at once."""
    random = np.random.default_rng(3)
    sizes = random.integers(0, 20, (5000, 2))
    row, half = np.divmod(np.repeat(np.arange(10_000), sizes.ravel()), 2)
    size = len(row)
    whole = random.integers(0, 30, size)
    sums = pd.DataFrame({
        "r": row, "half": half == 0,
        "g": np.concatenate([random.permutation(40)[:n] for n in sizes.ravel()]),
        "part": random.binomial(whole, 0.3), "whole": whole,
        "samples": random.integers(0, 3, size),
    })  # fmt: skip
    connection = duckdb.connect()
    register(connection)
    connection.register("frame", sums)
    connection.execute("create table sums as select * from frame")
    return connection


def lists(connection: duckdb.DuckDBPyConnection, sql: str) -> list[tuple]:
    return connection.sql(f"select {sql} from sums group by r order by r").fetchall()


def agree(found: dict[str, float | None], *expected: float | None) -> None:
    pairs = (np.array([*values], float) for values in (found.values(), expected))
    np.testing.assert_allclose(*pairs, rtol=1e-12)


def test_means_of_rows_are_those_of_the_sums_by_user(connection):
    """A user has a row in each half; a mean of few users is null in both."""
    sums = "select r, g, sum(part) as part, sum(whole) as whole, sum(samples) as samples from sums"
    columns = "list(g::ubigint), list(part), list(whole), list(samples)"
    of_rows = lists(connection, f"mean_of_rows({columns})")
    of_users = connection.sql(f"""
        select mean_interval(list(part), list(whole), list(samples)).value
        from ({sums} group by r, g) group by r order by r
    """).fetchall()
    found, expected = (np.array(rows, float) for rows in (of_rows, of_users))
    assert 100 < np.isnan(expected).sum() < 2000
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("function", [mean, share])
def test_intervals_are_those_of_python(connection, function):
    arguments = "list(part), list(whole), list(samples)"
    rows = lists(connection, f"{function.__name__}_interval({arguments}), {arguments}")
    known = 0
    for found, *columns in rows:
        expected = function(*(np.array(column, float) for column in columns))
        agree(found, expected.value, expected.low, expected.high)
        known += expected.value is not None
    assert 1000 < known < len(rows)


def test_differences_and_their_significance_are_those_of_python(connection):
    arguments = "list(g), list(half), list(part), list(whole), list(samples)"
    rows = lists(connection, f"difference_interval({arguments}), {arguments}")
    for found, *columns in rows:
        group, half, *sums = (np.array(column) for column in columns)
        first, second = (
            Sums(*(column[side].astype(float) for column in sums), group[side])
            for side in (half, ~half)
        )
        agree(found, *(values[0] for values in difference_intervals(first, second)))
    pages = np.arange(len(rows)) % 10
    p = pd.DataFrame({"page": pages, "p": [found["p"] for found, *_ in rows]})
    connection.register("p_values", p)
    limits = connection.sql("select page, limit_of_chance(list(p)) from p_values group by page")
    for page, limit in limits.fetchall():
        known = p["p"][p["page"] == page].dropna()
        assert (known < limit).tolist() == multipletests(known, 0.05, "holm")[0].tolist()
        assert 0 < len(known) < (pages == page).sum()


def test_nothing_is_known_of_no_groups_or_of_a_null_sum(connection):
    nothing = {"value": None, "low": None, "high": None}
    found = connection.sql("""
        select share_interval(null, null, null), share_interval([], [], []),
            mean_interval([null, 2, 3], [1, 1, 1], [9, 9, 9]), limit_of_chance([])
    """)
    assert found.fetchall() == [(nothing, nothing, nothing, np.inf)]


def test_lists_of_different_lengths_are_refused(connection):
    with pytest.raises(duckdb.InvalidInputException, match="different numbers of elements"):
        connection.sql("select share_interval([1, 2], [3, 3], [3])").fetchall()


def test_superset_s_image_has_the_modules_of_the_functions():
    """The image has no giscope, only the files that its Dockerfile copies."""
    copied = (ROOT / "infra/docker/Dockerfile").read_text()
    modules, open_ = set(), ["spark_jobs.figures.sql_functions"]
    while open_:
        module = open_.pop()
        path = module.replace(".", "/") + ".py"
        if module in modules or not (ROOT / path).exists():
            continue
        modules.add(module)
        assert path in copied, path
        open_ += re.findall(
            r"^\s*from (spark_jobs\.[\w.]+) import", (ROOT / path).read_text(), re.M
        )
    assert len(modules) >= 4
