"""Fig. 7."""

from spark_jobs.figures.charts import cumulative, histogram, table
from spark_jobs.figures.dashboard_parts import Dataset, Metric, rate_histogram
from spark_jobs.figures.dashboard_sql import KEYS, USERS, share_of_series, sum_of_series
from spark_jobs.figures.format import KBITS
from spark_jobs.figures.metrics.numbers import numbers_of
from spark_jobs.figures.names import SHOWN_BINS

TAB = "channel"
CHANNEL_RATE = Dataset(
    "channel_rate",
    rate_histogram(
        "fig07_channel_rate",
        f"{KEYS}, {USERS}",
        ["seconds", "periods", "ip_bytes"],
        SHOWN_BINS,
        "exp((bin + 0.5) / 100)",
    ),
    [
        Metric("seconds", "sum(seconds)", "measured time [s]", ",.0f"),
        Metric("periods", "sum(periods)", "measurement periods", ",d"),
        sum_of_series("seconds", "measured time [s]", "periods"),
        share_of_series("seconds", "share of measured time", "periods"),
    ],
    "channel rates, which need a busy link",
)
MEAN_RATES = numbers_of(
    "channel_rate",
    "mean rate",
    KBITS,
    {
        "periods": ("measurement periods", "measured"),
        "seconds": ("measured time [s]", "denominator"),
    },
)
ROWS = [
    [
        histogram("Fig. 7. Available channel rate", CHANNEL_RATE, "rate_kbps",
                  "seconds_of_series",
                  "Available channel rate [kbit/s]", "Share of measured time"),
        cumulative("Fig. 7. Channel rate, peak and off-peak", CHANNEL_RATE,
                   "rate_kbps_below", "Available channel rate [kbit/s]",
                   "Cumulative share of measured time"),
    ],
    [
        table("Fig. 7. Measured periods and mean rate, with 95 % intervals",
              MEAN_RATES.dataset("mean_rates"), ["network", "hours"],
              ["periods", "seconds", "channel_rate"], order="network || hours"),
    ],
]  # fmt: skip
