"""Columns, metrics and filters that the pages share."""

from dataclasses import replace

from spark_jobs.dashboards.parts import Dataset, DateFilter, Metric, ValueFilter, if_enough_data

NETWORK = "network, date, country, access"
SERIES = f"{NETWORK}, hour, hours, series"
KEYS = f"""{NETWORK}, hour, replace(period, '_', '-') as hours,
    network || ' ' || replace(period, '_', '-') as series"""
"""Columns of every dataset; `series` names a network and its peak or off-peak hours."""

FLOWS = Metric("flows", "sum(flows)", "connections", ",d")
FRAMES = Metric("frames", "sum(frames)", "frames", ",d")
USER_GROUPS = "1::ubigint << user_group as user_groups"
"""Column with one bit for each user group, as in the marts without the column user_group."""


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


def share(name: str, label: str, part: str, whole: str = "flows") -> Metric:
    """Return the ratio of two sums as a metric in percent."""
    sql = f"sum({part}) / nullif(sum({whole}), 0)"
    return Metric(name, if_enough_data(sql, whole), label, ".2%")


def mean_rate(name: str, label: str) -> Metric:
    """Return the mean over connections of a rate as a metric in kbit/s."""
    sql = f"sum({name}_sum) / nullif(sum(flows), 0) / 1000"
    return Metric(name, if_enough_data(sql, "flows"), f"{label} [kbit/s]", ",.3~r")


CONNECTIONS = Dataset(
    "connections",
    f"select {KEYS}, {USER_GROUPS}, * exclude ({NETWORK}, hour, period) from table1_summary",
    [
        Metric("flows", "sum(flows)", "TCP connections", ",d"),
        Metric("bytes_down", "sum(ip_bytes_down)", "IP bytes, downlink [B]", ".3s"),
        Metric("bytes_up", "sum(ip_bytes_up)", "IP bytes, uplink [B]", ".3s"),
        Metric("networks", "count(distinct network)", "networks", ",d"),
    ],
)
DATES = DateFilter()
COUNTRY, NETWORKS = (
    ValueFilter("country", "Country", CONNECTIONS),
    ValueFilter("network", "Network", CONNECTIONS, narrowed_by=("country", "access")),
)
MOST_COMMON_ACCESS = "access of most networks"
"""Placeholder in the assets; `load.py` replaces it by the name of that access technology."""
HOUR = ValueFilter("hour", "Local hour", CONNECTIONS)
HOURS = ValueFilter("hours", "Peak or off-peak", CONNECTIONS)
FILTERS = (
    COUNTRY,
    ValueFilter("access", "Access", CONNECTIONS, selected=(MOST_COMMON_ACCESS,), single=True),
    NETWORKS,
    DATES,
    replace(HOURS, selected=("peak", "off-peak")),
    HOUR,
)
"""Filters of pages that show one access technology, at peak and off-peak."""
