"""The shares of connections and bytes whose channel rate is known."""

from spark_jobs.figures.figure import Figure
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import Numbers, Ratio
from spark_jobs.figures.table3_clusters.numbers import LABELS

NUMBERS = Numbers(
    mart("channel_rate_coverage"),
    [
        Ratio("rated", "share", "flows_with_rate"),
        Ratio("rated_bytes", "share of bytes", "ip_bytes_with_rate", "ip_bytes"),
    ],
    {"window": "coalesce(window_class, 'unknown')"},
    counts={
        "flows": ("connections above 100 KiB", "flows"),
        "flows_with_rate": ("with a channel rate", "flows_with_rate"),
    },
)
FIGURE = Figure(
    "channel-rate-coverage",
    "Fig. 7. Traffic with a known channel rate",
    "INFOCOM 2004, Section IV",
    "Connections above 100 KiB of distinct payload with at least one period of a known channel "
    "rate. Small windows keep the link from being busy, and so hide its rate.",
    "channel",
    NUMBERS,
    by={"window": ("window", [*LABELS["window"], "unknown"])},
    totals="all",
)
