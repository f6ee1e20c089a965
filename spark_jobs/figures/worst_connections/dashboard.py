"""The slowest, most stalled and most lossy connections, each with a link to its page."""

from spark_jobs.figures.charts import raw_table
from spark_jobs.figures.connection_links import LINK_SQL
from spark_jobs.figures.dashboard_parts import Dataset, Metric
from spark_jobs.figures.dashboard_sql import KEYS
from spark_jobs.figures.worst_connections.numbers import SHOWN, WORST_BY

TAB = "why"
CONNECTIONS = Dataset(
    "worst_connections",
    f"""
select {KEYS}, worst_by, {LINK_SQL} as connection, round(goodput / 1000, 1) as "goodput [kbit/s]",
    payload_bytes_down as "bytes to the mobile", round(stalled, 1) as "stalled [s]",
    data_packets_down as "data packets", round(100 * loss, 2) as "lost [%]",
    replace(limited_by, '_', ' ') as "limited by", goodput, stalled, loss
from worst_connections
""",
    [Metric("connections", "count(*)", "connections", ",d")],
)
COLUMNS = [
    "connection", "network", "date", "hour", "goodput [kbit/s]", "bytes to the mobile",
    "stalled [s]", "data packets", "lost [%]", "limited by",
]  # fmt: skip
ROWS = [
    [
        raw_table(title, CONNECTIONS, COLUMNS, order=order, where=f"worst_by = '{worst_by}'",
                  limit=SHOWN)
    ]
    for worst_by, (title, order) in WORST_BY.items()
]  # fmt: skip
