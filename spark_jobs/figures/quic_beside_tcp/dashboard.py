"""QUIC's share by local hour."""

from spark_jobs.figures.charts import bars
from spark_jobs.figures.dashboard_sql import rows_dataset
from spark_jobs.figures.quic_beside_tcp.numbers import DOWN, SHARES

TAB = "quic"
ROWS = [
    [
        bars("QUIC's share of IP bytes to the mobile by local hour",
             rows_dataset(SHARES, "quic_by_hour", "QUIC connections"), "hour", "share", "network",
             x_title="Local hour [h]", where=f"quantity = '{DOWN}'"),
    ],
]  # fmt: skip
