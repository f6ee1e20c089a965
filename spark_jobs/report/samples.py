"""Means, shares and quantiles of the marts' rows with their intervals, told by groups of users; and
"too few" where nothing is said."""

from collections.abc import Callable, Sequence
from math import exp

import numpy as np

from spark_jobs.estimators import by_user
from spark_jobs.estimators.by_user import UNKNOWN, Estimate, enough
from spark_jobs.report.page_elements import NO_BREAK_SPACE, NOT_MEASURED, TOO_FEW
from spark_jobs.report.selection import Selection

Rows = Sequence[dict]
BINS = 50
"""A bin of the mart distributions: so many times the natural logarithm, rounded down."""


def users(rows: Rows) -> int:
    """How many groups of users the rows are of: at most as many as there are users."""
    return len({(row["network"], row["user_group"]) for row in rows})


def count_group_bits(rows: Rows) -> int:
    """The same of rows of one network that say by bits which groups they hold (user_groups)."""
    bits = 0
    for row in rows:
        bits |= row["user_groups"]
    return (bits & ((1 << by_user.GROUPS) - 1)).bit_count()


def users_text(rows: Rows) -> str:
    """How many users the rows are of at least: in a group there may be several."""
    count = users(rows)
    return f"{count} user{'' if count == 1 else 's'} or more"


def are_enough(rows: Rows, samples: str = "flows") -> bool:
    """Whether the rows say something; samples: the column that counts."""
    return enough(sum(row[samples] for row in rows), users(rows))


def mean(rows: Rows, total: str, weight: str = "flows", samples: str = "flows") -> Estimate:
    """Of a column's sum over a column of weights, or counts."""
    if not are_enough(rows, samples):
        return UNKNOWN
    return by_user.mean(*_by_user(rows, of(total), of(weight)))


Value = Callable[[dict], float]


def of(column: str) -> Value:
    """What a column says of a row."""
    return lambda row: row[column]


def where(column: str, value: object) -> Value:
    """The connections of a row where a column says so, else none."""
    return lambda row: row["flows"] if row[column] == value else 0


FLOWS = of("flows")


def share(rows: Rows, part: Value, whole: Value = FLOWS) -> Estimate:
    """Of what `part` gives of a row in what `whole` gives of it."""
    if not enough(sum(map(whole, rows)), users(rows)):
        return UNKNOWN
    return by_user.share(*_by_user(rows, part, whole))


def quantile(rows: Rows, at: float) -> Estimate:
    """Of rows of the mart distributions; at: the share below."""
    if not are_enough(rows, "samples"):
        return UNKNOWN
    first = min(row["bin"] for row in rows)
    bins = max(row["bin"] for row in rows) - first + 1
    groups = _numbers(rows)
    weights = np.zeros((len(groups), bins))
    for row in rows:
        weights[groups[row["network"], row["user_group"]], row["bin"] - first] += row["weight"]
    edges = np.array([exp((first + k) / BINS) for k in range(bins + 1)])
    return by_user.quantile(weights, edges, at)


def distributions(selection: Selection, *measures: str) -> list[dict]:
    """The mart's rows of some measures, days added up."""
    names = ", ".join(f"'{name}'" for name in measures)
    return selection.rows(f"""
        select network, period, measure, category, user_group, bin,
            sum(samples)::bigint as samples, sum(weight) as weight,
            sum(weighted_sum) as weighted_sum
        from distributions where measure in ({names}) group by all order by all
    """)


def numbers(rows: Rows, text: Callable[[float | None], str], shares: Sequence[float]) -> list[str]:
    """Mean and quantiles of rows of the mart distributions."""
    found = [
        mean(rows, "weighted_sum", "weight", "samples"),
        *(quantile(rows, at) for at in shares),
    ]
    return [interval_text(estimate, text, bool(rows)) for estimate in found]


def interval_text(
    estimate: Estimate, text: Callable[[float | None], str], measured: bool = True
) -> str:
    """A value and its interval; measured: whether there are any samples."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return TOO_FEW if measured else NOT_MEASURED
    low, high = (text(end).split(NO_BREAK_SPACE)[0] for end in (estimate.low, estimate.high))
    return f"{text(estimate.value)} ({low}{NO_BREAK_SPACE}to{NO_BREAK_SPACE}{high})"


def error_bars(estimates: Sequence[Estimate], unit: float = 1.0) -> dict:
    """Plotly's, of the intervals in a unit."""
    return {
        "type": "data",
        "symmetric": False,
        "thickness": 1,
        "width": 3,
        "array": [((e.high or 0) - (e.value or 0)) / unit for e in estimates],
        "arrayminus": [((e.value or 0) - (e.low or 0)) / unit for e in estimates],
    }


def _numbers(rows: Rows) -> dict[tuple[str, int], int]:
    """A number for each group of users."""
    groups = sorted({(row["network"], row["user_group"]) for row in rows})
    return {group: k for k, group in enumerate(groups)}


def _by_user(rows: Rows, *values: Callable[[dict], float]) -> list[np.ndarray]:
    """What functions of a row sum up to by group of users."""
    groups = _numbers(rows)
    sums = [np.zeros(len(groups)) for _ in values]
    for row in rows:
        for total, value in zip(sums, values, strict=True):
            total[groups[row["network"], row["user_group"]]] += value(row)
    return sums
