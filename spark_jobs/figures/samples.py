"""Means, shares and quantiles of the mart distributions' rows, with intervals by user group."""

from collections.abc import Callable, Sequence
from math import exp

import numpy as np

from spark_jobs.figures import statistics
from spark_jobs.figures.format import Unit
from spark_jobs.figures.mart_sql import GROUPS
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.statistics import UNKNOWN, Estimate, enough

Rows = Sequence[dict]
BINS = 50
"""Bins per unit of the natural logarithm in the mart distributions.

bin = floor(BINS * ln(value)).
"""


def count_user_groups(rows: Rows) -> int:
    """Return the number of user groups that the rows have: a lower bound of the users."""
    return len({(row["network"], row["user_group"]) for row in rows})


def count_group_bits(rows: Rows) -> int:
    """Return the number of user groups of one network's rows with the bit mask user_groups."""
    bits = 0
    for row in rows:
        bits |= row["user_groups"]
    return (bits & ((1 << GROUPS) - 1)).bit_count()


def users_text(rows: Rows) -> str:
    """Return the minimum number of users that the rows have, in words."""
    count = count_user_groups(rows)
    return f"{count} user{'' if count == 1 else 's'} or more"


def are_enough(rows: Rows, samples: str = "samples") -> bool:
    """Return whether the rows have enough samples and users; samples: the column that counts."""
    return enough(sum(row[samples] for row in rows), count_user_groups(rows))


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
    """Return the value below which a share q of the mart distributions' rows lies."""
    if not rows:
        return UNKNOWN
    first = min(row["bin"] for row in rows)
    bins = max(row["bin"] for row in rows) - first + 1
    groups = _group_numbers(rows)
    weights = np.zeros((len(groups), bins))
    for row in rows:
        weights[groups[row["network"], row["user_group"]], row["bin"] - first] += row["weight"]
    edges = np.array([exp((first + k) / BINS) for k in range(bins + 1)])
    (samples,) = _sums_by_group(rows, column("samples"))
    return statistics.quantile(weights, edges, samples, q)


def distributions(selection: Selection, *measures: str) -> list[dict]:
    """Return the mart distributions' rows of some measures, summed over all days."""
    names = ", ".join(f"'{name}'" for name in measures)
    return selection.rows(f"""
        select network, period, measure, category, user_group, bin,
            sum(samples)::bigint as samples, sum(weight) as weight,
            sum(weighted_sum) as weighted_sum
        from distributions where measure in ({names}) group by all order by all
    """)


def mean_and_quantiles(rows: Rows, unit: Unit, shares: Sequence[float]) -> list[str]:
    """Return mean and quantiles of the mart distributions' rows as texts with intervals."""
    estimates = [
        mean(rows),
        *(quantile(rows, q) for q in shares),
    ]
    return [unit.estimate(estimate, bool(rows)) for estimate in estimates]


def _group_numbers(rows: Rows) -> dict[tuple[str, int], int]:
    groups = sorted({(row["network"], row["user_group"]) for row in rows})
    return {group: k for k, group in enumerate(groups)}


def _sums_by_group(rows: Rows, *values: Callable[[dict], float]) -> list[np.ndarray]:
    """Return float64[groups] for each function: its sum over the rows of each user group."""
    groups = _group_numbers(rows)
    sums = [np.zeros(len(groups)) for _ in values]
    for row in rows:
        for total, value in zip(sums, values, strict=True):
            total[groups[row["network"], row["user_group"]]] += value(row)
    return sums
