"""Columns and metrics that datasets of the dashboards share."""

from spark_jobs.figures.dashboard_parts import Dataset, Metric, if_enough_data, rate_histogram
from spark_jobs.figures.format import KBITS
from spark_jobs.figures.names import HOURS_SQL, SHOWN_BINS
from spark_jobs.figures.numbers import Ratio

NETWORK = "network, date, country, access"
SERIES = f"{NETWORK}, hour, hours, series"
KEYS = f"{NETWORK}, hour, {HOURS_SQL} as hours, network || ' ' || {HOURS_SQL} as series"
"""Columns of every dataset; `series` names a network and its peak or off-peak hours."""

FLOWS = Metric("flows", "sum(flows)", "connections", ",d")
USER_GROUPS = "1::ubigint << user_group as user_groups"
"""Column with one bit for each user group, as in the marts without the column user_group."""
PASSED_GI, ARRIVED = "counted = 'passed'", "counted = 'arrived'"
"""Rates count the bytes that passed Gi, as in the paper, or the bytes that reached the mobile."""


def share_of_series(summed: str, label: str, samples: str = "flows") -> Metric:
    """Return the metric `share`: a sum's share of its series, for charts that group by series."""
    whole = f"sum(sum({summed})) over (partition by series)"
    return Metric(
        "share", if_enough_data(f"sum({summed}) / {whole}", samples, "series"), label, ".0%"
    )


def sum_by(key: str, summed: str, label: str, samples: str = "flows") -> Metric:
    """Return a sum as a metric; it is null if all rows with the same key are too few."""
    return Metric(
        f"{summed}_by_{key}", if_enough_data(f"sum({summed})", samples, key), label, ",.0f"
    )


def rate_dataset(name: str, mart: str, keys: str, label: str) -> Dataset:
    """Return the histogram and the mean of a rate, of which a mart has the sums."""
    return Dataset(
        name,
        rate_histogram(mart, f"{KEYS}, {keys}", ["flows", f"{name}_sum"], SHOWN_BINS),
        [
            FLOWS,
            sum_by("series", "flows", "connections"),
            share_of_series("flows", "share of connections"),
            Ratio(name, label, f"{name}_sum", unit=KBITS).metric,
        ],
    )
