"""Fig. 9."""

from spark_jobs.figures.charts import cumulative, histogram
from spark_jobs.figures.dashboard_sql import ARRIVED, PASSED_GI, USERS, rate_dataset

TAB = "transfers"
THROUGHPUT = rate_dataset("throughput", "fig09_throughput", f"counted, {USERS}", "mean throughput")
ROWS = [
    [
        histogram("Fig. 9. Throughput of single, large TCP connections", THROUGHPUT,
                  "rate_kbps", "flows_of_series", "Throughput [kbit/s]", "Share of connections",
                  where=PASSED_GI),
        cumulative("Fig. 9. Throughput, peak and off-peak", THROUGHPUT,
                   "rate_kbps_below", "Throughput [kbit/s]", "Cumulative share of connections",
                   where=PASSED_GI),
    ],
    [
        histogram("Fig. 9. Throughput of bytes that arrived", THROUGHPUT, "rate_kbps",
                  "flows_of_series", "Throughput [kbit/s]", "Share of connections",
                  where=ARRIVED),
        cumulative("Fig. 9. Throughput of bytes that arrived, peak and off-peak", THROUGHPUT,
                   "rate_kbps_below", "Throughput [kbit/s]", "Cumulative share of connections",
                   where=ARRIVED),
    ],
]  # fmt: skip
