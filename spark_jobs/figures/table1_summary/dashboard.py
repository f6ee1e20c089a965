"""Numbers of connections and bytes by day and hour."""

from spark_jobs.figures.charts import bars, table
from spark_jobs.figures.dashboard_parts import Dataset, Metric
from spark_jobs.figures.dashboard_sql import KEYS, NETWORK, USER_GROUPS

TAB = "overview"
CONNECTIONS = Dataset(
    "connections",
    f"""select {KEYS}, {USER_GROUPS}, * exclude ({NETWORK}, hour, period, user_group)
    from table1_summary""",
    [
        Metric("flows", "coalesce(sum(flows), 0)", "TCP connections", ",d"),
        Metric("bytes_down", "coalesce(sum(ip_bytes_down), 0)", "IP bytes, downlink [B]", ".3s"),
        Metric("bytes_up", "coalesce(sum(ip_bytes_up), 0)", "IP bytes, uplink [B]", ".3s"),
        Metric("networks", "count(distinct network)", "networks", ",d"),
    ],
)
ROWS = [
    [
        table("Totals", CONNECTIONS, [], ["flows", "bytes_down", "bytes_up", "networks"],
              order="1", height=18),
    ],
    [
        bars("TCP connections by day", CONNECTIONS, "date", "flows", "network", stacked=True),
        bars("IP bytes by day, downlink", CONNECTIONS, "date", "bytes_down", "network",
             stacked=True),
    ],
    [
        bars("TCP connections by local hour", CONNECTIONS, "hour", "flows", "network",
             x_title="Local hour [h]"),
        bars("IP bytes by local hour, downlink", CONNECTIONS, "hour", "bytes_down",
             "network", x_title="Local hour [h]"),
    ],
]  # fmt: skip
