"""Means and shares in the dashboards' SQL: values, intervals, and what is too little to show."""

import datetime

import duckdb
import numpy as np
import pandas as pd

from schemas import Column, Table
from spark_jobs.dashboards.templates import to_superset_template
from spark_jobs.figures.format import Unit
from spark_jobs.figures.numbers import FILTERS_MARK, Numbers, Ratio, mean
from spark_jobs.figures.sql_functions import register

DAY = datetime.date(2004, 3, 1)
SUMS = Table("sums", "a row", (Column("user_group", "int32", "a group"),))
NUMBERS = Numbers(
    SUMS,
    [Ratio("share", "share", "part"), mean("mean", "mean", "total", Unit("s"), "weight", "flows")],
)


def asked(sums: pd.DataFrame, sql: str) -> list[dict]:
    connection = duckdb.connect()
    register(connection)
    connection.register("frame", sums)
    connection.execute("create table sums as select * replace (date::date as date) from frame")
    return connection.execute(sql).df().replace({np.nan: None}).to_dict("records")


COLUMNS = ["network", "period", "user_group", "date", "flows", "part", "total", "weight"]


def test_nothing_is_said_of_two_users_or_of_four_samples():
    rows = [("a", "peak", n, DAY, 2, 1, 9.0, 3.0) for n in range(2)]
    (shown,) = asked(pd.DataFrame(rows, columns=COLUMNS), NUMBERS.sql("network", text=True))
    assert (shown["share"], shown["mean"]) == ("too few", "too few")


def test_a_cell_says_value_and_interval():
    """Ten users who have it as often as each other, of 10 to 19 connections: nothing is not sure
    of it but how many users there are, each as if he were one sample. Of ten samples a share of a
    half is between 18.7 and 81.3 % (Clopper and Pearson 1934)."""
    rows = [("a", "peak", n, DAY, 10 + n, (10 + n) / 2, 3000.0, 100.0) for n in range(10)]
    frame = pd.DataFrame(rows, columns=COLUMNS)
    (shown,) = asked(frame, NUMBERS.sql("network", text=True))
    assert shown["flows"] == 145
    assert shown["share"].replace("\N{NO-BREAK SPACE}", " ") == "50 % (19 … 81)"
    assert shown["mean"].startswith("30")


def test_elsewhere_than_in_superset_everything_is_chosen():
    assert "get_filters('hour', remove_filter=True)" in to_superset_template(
        f"where true {FILTERS_MARK}"
    )
    one = pd.DataFrame([("a", "peak", 1, DAY, 2, 1, 9.0, 3.0)], columns=COLUMNS)
    assert len(asked(one, f"select * from sums where true {FILTERS_MARK}")) == 1
