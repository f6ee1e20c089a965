"""Fig. 13."""

from spark_jobs.figures.charts import bars, cumulative, histogram
from spark_jobs.figures.dashboard_parts import label_sql
from spark_jobs.figures.dashboard_sql import ARRIVED, PASSED_GI, USER_GROUPS, rate_dataset
from spark_jobs.figures.fig13_user_throughput.numbers import LEVELS

TAB = "transfers"
USER_THROUGHPUT = rate_dataset(
    "user_throughput",
    "fig13_user_throughput",
    f"counted, {USER_GROUPS}, {label_sql('background_thirds', LEVELS)} as level",
    "mean user throughput",
    "mean",
)
ROWS = [
    [
        histogram("Fig. 13. User throughput", USER_THROUGHPUT, "rate_kbps",
                  "flows_of_series", "User throughput [kbit/s]", "Share of connections",
                  where=PASSED_GI),
        bars("Fig. 13. Mean user throughput by background traffic", USER_THROUGHPUT, "level",
             "user_throughput", horizontal=True, descending=True,
             where=f"flows > 0 and {PASSED_GI}"),
    ],
    [
        cumulative("Fig. 13. User throughput, peak and off-peak", USER_THROUGHPUT,
                   "rate_kbps_below", "User throughput [kbit/s]",
                   "Cumulative share of connections", where=PASSED_GI),
        bars("Fig. 13. Mean user throughput of bytes that arrived, by background traffic",
             USER_THROUGHPUT, "level", "user_throughput", horizontal=True,
             descending=True,
             where=f"flows > 0 and {ARRIVED}"),
    ],
]  # fmt: skip
