"""Means and shares in the dashboards' SQL are those of the estimators."""

import datetime

import duckdb
import numpy as np
import pandas as pd
import pytest

from spark_jobs.dashboards.intervals import (
    FILTERS_MARK,
    Ratio,
    estimate_table,
    estimates,
    share_ratio,
    to_superset_template,
)
from spark_jobs.estimators.by_user import Estimate, mean, share

DAY = datetime.date(2004, 3, 1)
ROWS = "select network, user_group, date as day, flows, part, total, weight from sums"
RATIOS = [share_ratio("share", "part", "flows"), Ratio("mean", "total", "weight", "flows")]


def asked(sums: pd.DataFrame, sql: str) -> list[dict]:
    connection = duckdb.connect()
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
        "network": "a", "user_group": np.tile(np.arange(groups), 2),
        "date": np.repeat([DAY, DAY + datetime.timedelta(days=1)], groups),
        "flows": flows.ravel(), "part": part.ravel(), "total": total.ravel(),
        "weight": weight.ravel(),
    })  # fmt: skip


def agree(shown: dict | None, expected: Estimate) -> None:
    if expected.value is None:
        assert shown is None
        return
    assert shown is not None
    assert shown["value"] == pytest.approx(expected.value)
    width = expected.high - expected.low
    for end in ("low", "high"):
        assert shown[end] == pytest.approx(getattr(expected, end), rel=1e-4, abs=0.02 * width)


@pytest.mark.parametrize("seed", range(60))
def test_intervals_are_those_of_the_estimators(seed):
    sums = made_up(seed)
    shown = {row["ratio"]: row for row in asked(sums, estimates(ROWS, ["network"], RATIOS))}
    by_group = sums.groupby("user_group")[["flows", "part", "total", "weight"]].sum()
    columns = {name: by_group[name].to_numpy(float) for name in by_group}
    agree(shown.get("share"), share(columns["part"], columns["flows"]))
    agree(shown.get("mean"), mean(columns["total"], columns["weight"]))


def test_nothing_is_said_of_two_users_or_of_four_samples():
    rows = [("a", 0, DAY, 2, 1, 9.0, 3.0), ("a", 1, DAY, 2, 1, 8.0, 3.0)]
    columns = ["network", "user_group", "date", "flows", "part", "total", "weight"]
    assert asked(pd.DataFrame(rows, columns=columns), estimates(ROWS, ["network"], RATIOS)) == []


def test_a_cell_says_value_and_interval():
    """Ten users who have it as often as each other, of 10 to 19 connections: nothing is not sure
    of it but how many users there are, each as if he were one sample. Of ten samples a share of a
    half is between 18.7 and 81.3 % (Clopper and Pearson 1934)."""
    rows = [("a", n, DAY, 10 + n, (10 + n) / 2, 3000.0, 100.0) for n in range(10)]
    columns = ["network", "user_group", "date", "flows", "part", "total", "weight"]
    frame = pd.DataFrame(rows, columns=columns)
    (shown,) = asked(frame, estimate_table(ROWS, ["network"], RATIOS, {"counted": "sum(flows)"}))
    assert shown["counted"] == 145
    assert shown["share"].replace("\N{NO-BREAK SPACE}", " ") == "50 (19 … 81)"
    assert shown["mean"].startswith("30")


def test_elsewhere_than_in_superset_everything_is_chosen():
    assert "get_filters('hour', remove_filter=True)" in to_superset_template(
        f"where true {FILTERS_MARK}"
    )
    assert (
        asked(made_up(1), f"select count(*) as n from sums where true {FILTERS_MARK}")[0]["n"] > 0
    )
