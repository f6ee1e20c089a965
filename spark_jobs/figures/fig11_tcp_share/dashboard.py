"""Fig. 11."""

from spark_jobs.figures.charts import histogram
from spark_jobs.figures.dashboard_parts import Dataset, histogram_outline
from spark_jobs.figures.dashboard_sql import FLOWS, KEYS, USER_GROUPS, sum_of_series
from spark_jobs.figures.fig11_tcp_share.numbers import SIXTIETHS, TWENTIETHS

TAB = "transfers"
TCP_SHARE = Dataset(
    "tcp_share",
    histogram_outline(
        f"{KEYS}, {USER_GROUPS}",
        ["flows"],
        "fig11_tcp_share",
        f"least(floor({SIXTIETHS} / 3) / {TWENTIETHS}, {1 - 1 / TWENTIETHS})",
        str(1 / TWENTIETHS),
        "tcp_share",
    ),
    [FLOWS, sum_of_series("flows", "connections")],
)
ROWS = [
    [
        histogram("Fig. 11. Background traffic during TCP connections", TCP_SHARE, "tcp_share",
                  "flows_of_series", "Btcp / (Btcp + Bother)", "Share of connections"),
    ],
]  # fmt: skip
