"""What the pages have in common: the columns of every dataset, metrics, filters."""

from dataclasses import replace

from infra.superset.parts import Choice, Dataset, Dates, Metric, told_if_enough

NETWORK = "network, date, country, access"
SERIES = f"{NETWORK}, hour, hours, series"
KEYS = f"""{NETWORK}, hour, replace(period, '_', '-') as hours,
    network || ' ' || replace(period, '_', '-') as series"""
"""series: what is compared, a network's peak with its off-peak and with other networks."""

FLOWS = Metric("flows", "sum(flows)", "connections", ",d")
FRAMES = Metric("frames", "sum(frames)", "frames", ",d")
USER_GROUPS = "1::ubigint << user_group as user_groups"
"""A bit each, as marts without user_group have them."""


def share_of_series(counted: str, meaning: str, samples: str = "flows") -> Metric:
    """Of a series, where a chart groups by series."""
    whole = f"sum(sum({counted})) over (partition by series)"
    return Metric(
        "share", told_if_enough(f"sum({counted}) / {whole}", samples, "series"), meaning, ".0%"
    )


def told_by(key: str, counted: str, meaning: str, samples: str = "flows") -> Metric:
    """A sum, none where the rows with the same key are too few."""
    return Metric(
        f"{counted}_by_{key}", told_if_enough(f"sum({counted})", samples, key), meaning, ",.0f"
    )


def share(name: str, meaning: str, part: str, whole: str = "flows") -> Metric:
    sql = f"sum({part}) / nullif(sum({whole}), 0)"
    return Metric(name, told_if_enough(sql, whole), meaning, ".2%")


def mean_rate(name: str, meaning: str) -> Metric:
    sql = f"sum({name}_sum) / nullif(sum(flows), 0) / 1000"
    return Metric(name, told_if_enough(sql, "flows"), f"{meaning} [kbit/s]", ",.3~r")


CONNECTIONS = Dataset(
    "connections",
    f"select {KEYS}, {USER_GROUPS}, * exclude ({NETWORK}, hour, period) from table1_summary",
    [
        Metric("flows", "sum(flows)", "TCP connections", ",d"),
        Metric("bytes_down", "sum(ip_bytes_down)", "IP bytes to the mobiles [B]", ".3s"),
        Metric("bytes_up", "sum(ip_bytes_up)", "IP bytes from the mobiles [B]", ".3s"),
        Metric("networks", "count(distinct network)", "networks", ",d"),
    ],
)
DATES = Dates()
COUNTRY, NETWORKS = (
    Choice("country", "Country", CONNECTIONS),
    Choice("network", "Network", CONNECTIONS, narrowed_by=("country", "access")),
)
COMMONEST_ACCESS = "access of most networks"
"""Whose name `load.py` knows."""
HOUR = Choice("hour", "Local hour", CONNECTIONS)
HOURS = Choice("hours", "Peak or off-peak", CONNECTIONS)
FILTERS = (
    COUNTRY,
    Choice("access", "Access", CONNECTIONS, chosen=(COMMONEST_ACCESS,), single=True),
    NETWORKS,
    DATES,
    replace(HOURS, chosen=("peak", "off-peak")),
    HOUR,
)
"""Of pages whose figures are of one access technology each, at peak and off-peak."""
