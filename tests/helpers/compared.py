"""An independent computation of what a comparison of two halves must show: a regression written
out, on a frame that has the columns of the mart `metrics`."""

from datetime import date
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests

from spark_jobs.figures.selection import Selection, ShownNetwork
from spark_jobs.figures.sql_functions import register
from spark_jobs.figures.tables import TABLES
from spark_jobs.warehouse.store import Warehouse

HALVES = ("peak", "off_peak")
DAY = date(2004, 3, 1)


def of_other_users(true: float, draws: int) -> pd.DataFrame:
    """Return a mart `metrics` of networks, each a random draw from users of whom a third are there
    at peak only; at peak the metric is higher by `true`."""
    random = np.random.default_rng(7)
    everyone, frames = np.arange(64), []
    for number in range(draws):
        level, usual = random.normal(1, 0.3, 64), random.lognormal(2, 0.7, 64)
        for period, users in (("peak", everyone), ("off_peak", everyone[everyone % 3 > 0])):
            there = users[random.random(len(users)) < 0.9]
            noise = random.normal(true * (period == "peak"), 0.1, len(there))
            denominator = usual[there] * random.lognormal(0, 0.3, len(there))
            columns = {
                "network": f"n{number}", "date": DAY, "country": "AA", "access": "gprs", "hour": 10,
                "period": period, "metric": "setup_delay", "user_group": there, "measured": 5,
                "numerator": (level[there] + noise) * denominator, "denominator": denominator,
            }  # fmt: skip
            frames.append(pd.DataFrame(columns))
    return pd.concat(frames)


def selection_of(metrics: pd.DataFrame) -> Selection:
    """Return a selection whose mart `metrics` is the frame."""
    connection = duckdb.connect()
    register(connection)
    connection.register("frame", metrics)
    connection.execute("create table metrics as select * replace (date::date as date) from frame")
    distributions = TABLES["distributions"].arrow_with_partitions.empty_table()
    connection.register("distributions", distributions)
    days: list[date] = sorted(metrics["date"].unique())
    networks = [
        ShownNetwork(name, "AA", "gprs", "") for name in sorted(metrics["network"].unique())
    ]
    return Selection(networks, days[0], days[-1], connection, Warehouse(Path()))


def compared(metrics: pd.DataFrame) -> pd.DataFrame:
    """Return a row per network and metric with both halves: first, second, low, high (null without
    an interval) and claimed."""
    rows = {}
    for key, of_key in metrics.groupby(["network", "metric"]):
        halves = [of_key[of_key["period"] == half] for half in HALVES]
        if all(len(half) for half in halves):
            rows[key] = _compared(*halves)
    found = pd.DataFrame(
        rows.values(),
        pd.MultiIndex.from_tuples(rows, names=["network", "metric"]),
        ["first", "second", "low", "high", "p"],
        dtype=float,
    )
    p = found["p"].dropna()
    found["claimed"] = False
    if len(p):
        found.loc[p.index, "claimed"] = multipletests(p, 0.05, "holm")[0]
    return found


def _compared(*halves: pd.DataFrame) -> tuple[float | None, ...]:
    sums = [half.groupby("user_group")[["numerator", "denominator"]].sum() for half in halves]
    values = [
        one["numerator"].sum() / one["denominator"].sum()
        if len(one) >= 3 and half["measured"].sum() >= 5
        else None
        for one, half in zip(sums, halves, strict=True)
    ]
    if None in values or min(map(len, sums)) < 10:
        return *values, None, None, None
    error = _error(*sums)
    if not error > 0:
        return *values, None, None, None
    effective_groups = min(
        one["denominator"].sum() ** 2 / (one["denominator"] ** 2).sum() for one in sums
    )
    t = stats.t(max(effective_groups - 1, 1))
    difference, reach = values[0] - values[1], t.ppf(0.975) * error
    return *values, difference - reach, difference + reach, 2 * t.sf(abs(difference) / error)


def _error(first: pd.DataFrame, second: pd.DataFrame) -> float:
    """Return the standard error of the half's coefficient in a regression weighted by the
    denominator, robust to clusters, the user groups (CR1)."""
    rows = pd.concat([first.assign(half=1.0), second.assign(half=0.0)])
    x = np.column_stack([np.ones(len(rows)), rows["half"]])
    weight = rows["denominator"].to_numpy()
    y = rows["numerator"].to_numpy() / weight
    bread = np.linalg.inv(x.T @ (weight[:, None] * x))
    residual = y - x @ (bread @ x.T @ (weight * y))
    clusters = rows.index.unique()
    meat = np.zeros((2, 2))
    for cluster in clusters:
        mine = np.asarray(rows.index == cluster)
        score = x[mine].T @ (weight * residual)[mine]
        meat += np.outer(score, score)
    g, n = len(clusters), len(rows)
    return float(np.sqrt((bread @ meat @ bread)[1, 1] * g / (g - 1) * (n - 1) / (n - 2)))
