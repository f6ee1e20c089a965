"""Shares and quantiles of the mart distributions' rows, with intervals by user group."""

from collections.abc import Callable, Sequence

import numpy as np

from spark_jobs.figures import statistics
from spark_jobs.figures.statistics import UNKNOWN, Estimate, enough

Rows = Sequence[dict]
Value = Callable[[dict], float]


def are_enough(rows: Rows) -> bool:
    """Return whether the rows have enough samples and users."""
    return enough(sum(row["samples"] for row in rows), len(set(_user_groups(rows))))


def column(name: str) -> Value:
    """Return a function that returns a row's value in a column."""
    return lambda row: row[name]


def share(rows: Rows, part: Value, whole: Value) -> Estimate:
    """Return the share: the rows' sum of `part` over their sum of `whole`."""
    groups = _group_numbers(rows)
    parts, wholes = (np.bincount(groups, [value(row) for row in rows]) for value in (part, whole))
    return statistics.share(parts, wholes, wholes)


def quantile(rows: Rows, q: float) -> Estimate:
    """Return the value below which a share q of the mart distributions' rows lies."""
    if not rows:
        return UNKNOWN
    names = ("samples", "weight", "weighted_sum", "lowest", "highest")
    bins = np.array([[row[name] for name in names] for row in rows], np.float64)
    return statistics.binned_quantile(bins, _group_numbers(rows), q)


def _user_groups(rows: Rows) -> list[tuple[str, int]]:
    """Return each row's network and user group."""
    return [(row["network"], row["user_group"]) for row in rows]


def _group_numbers(rows: Rows) -> np.ndarray:
    """Return int64[rows]: the number of each row's user group, from 0."""
    groups = _user_groups(rows)
    numbers = {group: number for number, group in enumerate(sorted(set(groups)))}
    return np.array([numbers[group] for group in groups], np.int64)
