"""Means, shares and quantiles of the mart distributions' rows, with intervals by user group."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import exp

import numpy as np

from spark_jobs.figures import statistics
from spark_jobs.figures.format import Unit
from spark_jobs.figures.mart_columns import (
    GROUPS,
    MAX_USERS_WITH_NUMBERS,
    common_user_group,
)
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.statistics import UNKNOWN, Estimate, Points, enough

Rows = Sequence[dict]
BINS = 50
"""Bins per unit of the natural logarithm in the mart distributions.

bin = floor(BINS * ln(value)).
"""


USERS_NOTE = (
    f"Users of days on which a network has more than {MAX_USERS_WITH_NUMBERS:,} users are counted "
    f"by {GROUPS} groups, so there may be more."
)


def are_enough(rows: Rows, samples: str = "samples") -> bool:
    """Return whether the rows have enough samples and users; samples: the column that counts."""
    return enough(sum(row[samples] for row in rows), len(set(_user_groups(rows))))


def mean(rows: Rows) -> Estimate:
    """Return the weighted mean of the samples."""
    return statistics.mean(
        *_sums_by_group(rows, *map(column, ("weighted_sum", "weight", "samples")))
    )


Value = Callable[[dict], float]


def column(name: str) -> Value:
    """Return a function that returns a row's value in a column."""
    return lambda row: row[name]


def share(rows: Rows, part: Value, whole: Value) -> Estimate:
    """Return the share: the rows' sum of `part` over their sum of `whole`."""
    return statistics.share(*_sums_by_group(rows, part, whole, whole))


def quantile(rows: Rows, q: float) -> Estimate:
    """Return the value below which a share q of the mart distributions' rows lies.

    It is exact if no row has more than three samples. Else samples between the smallest and the
    largest of a row count as their mean, so the error is less than a bin.
    """
    if not rows:
        return UNKNOWN
    groups = _group_numbers(rows)
    (samples,) = _sums_by_group(rows, column("samples"))
    names = ("samples", "weight", "weighted_sum", "lowest", "highest")
    count, weight, total, lowest, highest = (
        np.array([row[name] for row in rows], np.float64) for name in names
    )
    others = np.maximum(count - 2, 0)
    other = (total / weight * count - lowest - highest) / np.maximum(others, 1)
    parts = [
        Points(lowest, lowest, lowest, weight / count, groups),
        Points(highest, highest, highest, weight / count * (count > 1), groups),
        Points(np.clip(other, lowest, highest), lowest, highest, weight / count * others, groups),
    ]
    points = Points(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return statistics.quantile(points.where(points.weight > 0), samples, q)


def distributions(selection: Selection, *measures: str) -> list[dict]:
    """Return the mart distributions' rows of some measures, summed over all days."""
    names = ", ".join(f"'{name}'" for name in measures)
    return selection.rows(f"""
        select network, period, measure, category, bin,
            {common_user_group("distributions")} as user_group,
            sum(samples)::bigint as samples, sum(weight) as weight,
            sum(weighted_sum) as weighted_sum,
            min(coalesce(lowest, exp(bin / {BINS}))) as lowest,
            max(coalesce(highest, exp((bin + 1) / {BINS}))) as highest
        from distributions where measure in ({names}) group by all order by all
    """)


def cumulative(rows: Rows) -> tuple[list[float], list[float]]:
    """Return the edges of the bins, and the share of the samples below each."""
    counts: Counter[int] = Counter()
    for row in rows:
        counts[row["bin"]] += row["samples"]
    bins = sorted(counts)
    edges = [exp(bins[0] / BINS), *(exp((n + 1) / BINS) for n in bins)]
    below = accumulate((counts[n] for n in bins), initial=0)
    return edges, [number / counts.total() for number in below]


def mean_and_quantiles(rows: Rows, unit: Unit, shares: Sequence[float]) -> list[str]:
    """Return mean and quantiles of the mart distributions' rows as texts with intervals."""
    estimates = [
        mean(rows),
        *(quantile(rows, q) for q in shares),
    ]
    return [unit.estimate(estimate, bool(rows)) for estimate in estimates]


def _user_groups(rows: Rows) -> list[tuple[str, int]]:
    """Return each row's network and user group."""
    return [(row["network"], row["user_group"]) for row in rows]


def _group_numbers(rows: Rows) -> np.ndarray:
    """Return int64[rows]: the number of each row's user group, from 0."""
    groups = _user_groups(rows)
    numbers = {group: number for number, group in enumerate(sorted(set(groups)))}
    return np.array([numbers[group] for group in groups], np.int64)


def _sums_by_group(rows: Rows, *values: Callable[[dict], float]) -> list[np.ndarray]:
    """Return float64[groups] for each function: its sum over the rows of each user group."""
    groups = _group_numbers(rows)
    return [np.bincount(groups, [value(row) for row in rows]) for value in values]
