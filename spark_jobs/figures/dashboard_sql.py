"""SQL of columns, and metrics, that the dashboards' datasets of marts' rows share."""

from spark_jobs.figures.dashboard_parts import Dataset, Metric, if_enough_data, rate_histogram
from spark_jobs.figures.format import KBITS
from spark_jobs.figures.mart_columns import GROUPS
from spark_jobs.figures.names import HOURS_SQL, SHOWN_BINS
from spark_jobs.figures.numbers import Ratio

NETWORK = "network, date, country, access"
"""Columns of every dataset, for filters and for row-level security by country."""
SERIES = f"{NETWORK}, hour, hours, series"
"""Names of the columns that KEYS makes."""
KEYS = f"{NETWORK}, hour, {HOURS_SQL} as hours, network || ' ' || {HOURS_SQL} as series"
"""Columns of a dataset of a mart's rows; `series` is a network's name with its hours' label."""
FLOWS = Metric("flows", "sum(flows)", "connections", ",d")
USERS = "user_groups, user_numbers"
"""Columns that show which users a row has."""
USER_GROUPS = f"""user_group, 1::ubigint << (user_group % {GROUPS}) as user_groups,
    if(user_group < {GROUPS}, null, [user_group]) as user_numbers"""
"""The column user_group, and the USERS of a mart that has it."""
PASSED_GI, ARRIVED = "counted = 'passed'", "counted = 'arrived'"
"""Conditions on marts of rates: bytes that passed Gi, as in the paper, or that arrived count."""


def share_of_series(summed: str, label: str, samples: str = "flows") -> Metric:
    """Return the metric `share`: the share of a sum in the sum of its series.

    summed, samples: columns of the dataset: what is summed, and the number of samples.
    """
    whole = f"sum(sum({summed})) over (partition by series)"
    return Metric(
        "share", if_enough_data(f"sum({summed}) / {whole}", samples, "series"), label, ".0%"
    )


def sum_by(key: str, summed: str, label: str, samples: str = "flows") -> Metric:
    """Return a sum as a metric; it is null if the rows with the same `key` have too few samples.

    key, summed, samples: columns of the dataset.
    """
    return Metric(
        f"{summed}_by_{key}", if_enough_data(f"sum({summed})", samples, key), label, ",.0f"
    )


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
            sum_by("series", "flows", "connections"),
            share_of_series("flows", "share of connections"),
            Ratio(name, label, f"{name}_sum", unit=KBITS, kind=kind).metric,
        ],
    )
