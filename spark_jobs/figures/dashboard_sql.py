"""SQL of columns, and metrics, that the dashboards' datasets of marts' rows share."""

from collections.abc import Iterable, Sequence

from spark_jobs.figures.dashboard_parts import (
    SERIES,
    Dataset,
    Metric,
    if_enough_data,
    literal,
    rate_histogram,
)
from spark_jobs.figures.format import KBITS
from spark_jobs.figures.mart_columns import GROUPS, USER_GROUP
from spark_jobs.figures.names import HOURS_SQL, SHOWN_BINS
from spark_jobs.figures.numbers import Numbers, Ratio

NETWORK = "network, date, country, access"
"""Columns of every dataset, for filters and for row-level security by country."""
KEY_NAMES = f"{NETWORK}, hour, hours, series"
"""Names of the columns that KEYS makes."""
KEYS = f"{NETWORK}, hour, {HOURS_SQL} as hours, network || ', ' || {HOURS_SQL} as series"
"""Columns of a dataset of a mart's rows.

`series` is a network's name with its hours' label, for charts with these on an axis. The others
have the columns SERIES, as a click on a chart selects values of columns.
"""
FLOWS = Metric("flows", "sum(flows)", "connections", ",d")
USERS = "user_groups, user_numbers"
"""Columns that show which users a row has."""
USER_GROUPS = f"""user_group, 1::ubigint << (user_group % {GROUPS}) as user_groups,
    if(user_group < {GROUPS}, null, [user_group]) as user_numbers"""
"""The column user_group, and the USERS of a mart that has it."""
PASSED_GI, ARRIVED = "counted = 'passed'", "counted = 'arrived'"
"""Conditions on marts of rates: bytes that passed Gi, as in the paper, or that arrived count."""


def share_of_series(
    summed: str, label: str, samples: str = "flows", by: Sequence[str] = SERIES
) -> Metric:
    """Return the metric `share`: the share of a sum in the sum of its series.

    summed, samples: columns of the dataset: what is summed, and the number of samples.
    by: columns whose values have a series each.
    """
    key = ", ".join(by)
    whole = f"sum(sum({summed})) over (partition by {key})"
    return Metric("share", if_enough_data(f"sum({summed}) / {whole}", samples, key), label, ".0%")


def sum_of_series(
    summed: str, label: str, samples: str = "flows", by: Sequence[str] = SERIES
) -> Metric:
    """Return the metric `summed`_of_series: a sum, or null if its series has too few samples.

    summed, samples, by: as for share_of_series.
    """
    enough = if_enough_data(f"sum({summed})", samples, ", ".join(by))
    return Metric(f"{summed}_of_series", enough, label, ",.0f")


def rows_dataset(numbers: Numbers, name: str, measured: str) -> Dataset:
    """Return a dataset with a mart's rows, and the ratios of numbers as metrics without intervals.

    measured: what it counts, in words
    """
    users, own = _users_of(numbers)
    dimensions = "".join(f', {sql} as "{column}"' for column, sql in numbers.dimensions.items())
    replaced = ", ".join([NETWORK, "hour", "period", own, *_replaced(numbers)])
    return Dataset(
        name,
        f"""select {KEYS}, {users}, * exclude ({replaced}){dimensions}
from {numbers.source or numbers.mart.name} where {numbers.where}""",
        [ratio.metric for ratio in numbers.shares],
        measured,
    )


def parts_dataset(
    numbers: Numbers, name: str, parts: Sequence[str], measured: str, by: Iterable[str] = ()
) -> Dataset:
    """Return a dataset with a row for each row of a mart and each of some ratios, its `part`.

    The metric is the sum of the ratios' numerators, `amount`. The first part's rows alone have the
    samples of the mart's row. measured: what the metric counts, in words. by: columns whose values
    have a `series` each
    """
    users, _ = _users_of(numbers)
    labels = ", ".join(literal(numbers[part].label) for part in parts)
    sums = ", ".join(numbers[part].numerator for part in parts)
    samples = ", ".join([numbers[parts[0]].samples, *["0"] * (len(parts) - 1)])
    more = "".join(f" || ', ' || {numbers.dimensions.get(column, column)}" for column in by)
    keys = KEYS.replace(" as series", f"{more} as series")
    return Dataset(
        name,
        f"""select {keys}, {users}, unnest([{labels}]) as part, unnest([{sums}]) as amount,
    unnest([{samples}]) as samples
from {numbers.mart.name} where {numbers.where}""",
        [sum_of_series("amount", measured, "samples", ["series"])],
        measured,
    )


def _users_of(numbers: Numbers) -> tuple[str, str]:
    """Return SQL of the columns that show a row's users, and the mart's columns of this name."""
    if USER_GROUP.name in numbers.mart.arrow.names:
        return USER_GROUPS, USER_GROUP.name
    return USERS, USERS


def _replaced(numbers: Numbers) -> list[str]:
    """Return the mart's columns that dimensions of the same name replace."""
    return [name for name in numbers.dimensions if name in numbers.mart.arrow.names]


def rate_dataset(name: str, mart: str, keys: str, label: str, kind: str = "none") -> Dataset:
    """Return a dataset with the histogram and the mean of a rate.

    name: of the dataset; the mart has the rate's sum as `name`_sum, beside `bin` and `flows`.
    keys: further columns of the mart to keep. label, kind: of the mean, as of a Ratio.
    """
    return Dataset(
        name,
        rate_histogram(
            mart, f"{KEYS}, {keys}", ["flows", f"{name}_sum"], SHOWN_BINS, f"{name}_sum / flows"
        ),
        [
            FLOWS,
            sum_of_series("flows", "connections"),
            share_of_series("flows", "share of connections"),
            Ratio(name, label, f"{name}_sum", unit=KBITS, kind=kind).metric,
        ],
    )
