"""The shares of connections and bytes whose channel rate is known."""

from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import Numbers, Ratio

NUMBERS = Numbers(
    mart("channel_rate_coverage"),
    [
        Ratio("rated", "with a channel rate", "flows_with_rate"),
        Ratio("rated_bytes", "share of bytes", "ip_bytes_with_rate", "ip_bytes"),
    ],
    {"window": "coalesce(window_class, 'unknown')"},
    counts={
        "flows": ("connections above 100 KiB", "flows"),
        "flows_with_rate": ("with a channel rate", "flows_with_rate"),
    },
)
