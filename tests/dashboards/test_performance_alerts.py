"""The alerts on the last day's performance, against the same weekday of earlier weeks."""

from datetime import date, timedelta

import duckdb
import pytest

from spark_jobs.dashboards.performance_alerts import ALERTS, alert_sql
from spark_jobs.figures.sql_functions import register
from spark_jobs.queries.guard import require_query

LAST = date(2004, 3, 30)


def answer(values: dict[int, float], measured: int = 100, metric: str = "setup_delay") -> str:
    """Return what the alert on set-up delays says; values: by the number of days before LAST."""
    connection = duckdb.connect()
    register(connection)
    connection.execute("""
        create table metrics (
            network text, metric text, date date, measured int, numerator double, denominator double
        )
    """)
    for days, value in values.items():
        day = LAST - timedelta(days=days)
        row = ["aa", metric, day, measured, value * 10, 10]
        connection.execute("insert into metrics values (?, ?, ?, ?, ?, ?)", row)
    sql = alert_sql(ALERTS["Set-up delay"])
    require_query(sql)
    [(text,)] = connection.execute(sql).fetchall()
    return text


@pytest.mark.parametrize(
    "values",
    [
        {0: 1.49, 7: 1.0, 14: 1.0, 21: 1.0},
        {0: 9.0, 7: 1.0},
        {0: 9.0, 1: 1.0, 2: 1.0, 35: 1.0, 42: 1.0},
        {0: 0.1, 7: 1.0, 14: 1.0},
        {},
    ],
    ids=["within", "one week", "other days", "better", "nothing"],
)
def test_nothing_is_worse_than_usual(values):
    assert answer(values) is None


def test_a_day_that_is_worse_is_named_with_both_levels():
    values = {0: 1.6, 7: 1.0, 14: 5.0, 21: 1.0, 28: 0.9, 1: 9.0}
    assert answer(values) == (
        "aa 2004-03-30: Set-up delay 1,600 ms, usually 1,000 ms".replace(" ms", "\xa0ms")
    )
    assert answer(values, measured=99) is None
    assert answer(values, metric="loss_access") is None
