"""Means and shares in the dashboards' SQL: values, intervals, and what is too little to show."""

import datetime

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from schemas import Column, Table
from spark_jobs.dashboards.templates import to_superset_template
from spark_jobs.figures import statistics
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


def made_up(seed: int) -> pd.DataFrame:
    """A network of few or many users, alike or not, of a rare or a common event; two days."""
    random = np.random.default_rng(seed)
    groups = int(random.choice([3, 4, 8, 20, 64]))
    chance = random.beta(2, 2, groups) * random.choice([0.02, 0.3, 1.0])
    flows = 1 + random.poisson(random.choice([1, 5, 60]), (2, groups))
    part = random.binomial(flows, random.choice([0, 1], p=[0.1, 0.9]) * chance)
    weight = flows * (random.pareto(2, groups) + 0.1)
    total = weight * random.normal(30, 8, groups)
    return pd.DataFrame({
        "network": "a", "period": "peak", "user_group": np.tile(np.arange(groups), 2),
        "date": np.repeat([DAY, DAY + datetime.timedelta(days=1)], groups),
        "flows": flows.ravel(), "part": part.ravel(), "total": total.ravel(),
        "weight": weight.ravel(),
    })  # fmt: skip


def written_out(part: np.ndarray, whole: np.ndarray, share: bool) -> tuple[float, ...] | None:
    """Value, low and high from the groups' sums, with each group left out in turn."""
    groups = len(whole)
    effective = whole.sum() ** 2 / (whole**2).sum()
    if groups < 3 or (effective < 3 - 1e-12 and not share):
        return None
    value = part.sum() / whole.sum()
    without = [(part.sum() - p) / (whole.sum() - w) for p, w in zip(part, whole, strict=True)]
    error = np.sqrt(sum((one - value) ** 2 for one in without))
    t = stats.t.ppf(0.975, max(effective - 1, 1))
    if not share:
        factor = np.exp(t * error / value)
        return value, value / factor, value * factor
    samples = groups
    if 0 < value < 1 and error > 1e-9:
        samples = value * (1 - value) / error**2 * (stats.norm.ppf(0.975) / t) ** 2
    low = stats.beta.ppf(0.025, value * samples, (1 - value) * samples + 1) if value > 0 else 0
    high = stats.beta.ppf(0.975, value * samples + 1, (1 - value) * samples) if value < 1 else 1
    return value, low, high


@pytest.mark.parametrize("seed", range(60))
def test_dashboard_and_report_have_the_intervals_that_are_written_out(seed):
    sums = made_up(seed)
    (shown,) = asked(sums, NUMBERS.sql("network"))
    by_group = sums.groupby("user_group")[["flows", "part", "total", "weight"]].sum()
    columns = {name: by_group[name].to_numpy(float) for name in by_group}
    for name, in_report, expected in (
        (
            "share",
            statistics.share(columns["part"], columns["flows"], columns["flows"]),
            written_out(columns["part"], columns["flows"], share=True),
        ),
        (
            "mean",
            statistics.mean(columns["total"], columns["weight"], columns["flows"]),
            written_out(columns["total"], columns["weight"], share=False),
        ),
    ):
        if expected is None:
            assert shown[name]["value"] is None
            assert in_report.value is None
        else:
            for end, value in zip(("value", "low", "high"), expected, strict=True):
                assert shown[name][end] == pytest.approx(value, rel=1e-9, abs=1e-9)
                assert getattr(in_report, end) == pytest.approx(value, rel=1e-9, abs=1e-9)


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
    assert (
        asked(made_up(1), f"select count(*) as n from sums where true {FILTERS_MARK}")[0]["n"] > 0
    )
