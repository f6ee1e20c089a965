"""The page on the channel rate and on losses (Figs. 7 and 8, Table II)."""

from spark_jobs.dashboards.charts import bars, cumulative, histogram, share_bars, table
from spark_jobs.dashboards.common import (
    FILTERS,
    FLOWS,
    KEYS,
    USER_GROUPS,
    share,
    share_of_series,
    sum_by,
)
from spark_jobs.dashboards.intervals import (
    Ratio,
    estimate_table,
    share_ratio,
    text_metric,
    user_group_sums,
)
from spark_jobs.dashboards.parts import Dashboard, Dataset, Metric, label_sql, rate_histogram
from spark_jobs.report import fig08
from spark_jobs.report.rates import SHOWN_BINS

CHANNEL_RATE = Dataset(
    "channel_rate",
    rate_histogram(
        "fig07_channel_rate",
        f"{KEYS}, user_groups",
        ["seconds", "periods", "ip_bytes"],
        SHOWN_BINS,
    ),
    [
        Metric("seconds", "sum(seconds)", "measured time [s]", ",.0f"),
        Metric("periods", "sum(periods)", "measurement periods", ",d"),
        sum_by("series", "seconds", "measured time [s]", "periods"),
        share_of_series("seconds", "share of measured time", "periods"),
    ],
)
GROUP_COLUMNS = ["network", "country", "access", "hours"]
MEAN_RATES = Dataset(
    "mean_rates",
    estimate_table(
        user_group_sums(
            "metrics", ["measured", "numerator", "denominator"], where="metric = 'channel_rate'"
        ),
        GROUP_COLUMNS,
        [Ratio("mean_rate", "numerator", "denominator", "measured", scale=1e-3)],
        {"periods": "sum(measured)", "seconds": "sum(denominator)"},
    ),
    [
        Metric("periods", "max(periods)", "measurement periods", ",d"),
        Metric("seconds", "max(seconds)", "measured time [s]", ",.0f"),
        text_metric("mean_rate", "mean rate [kbit/s]"),
    ],
)
RATE_COVERAGE = Dataset(
    "rate_coverage",
    estimate_table(
        user_group_sums(
            "channel_rate_coverage",
            ["flows", "flows_with_rate", "ip_bytes", "ip_bytes_with_rate"],
            {'"window"': "coalesce(window_class, 'unknown')"},
        ),
        [*GROUP_COLUMNS, '"window"'],
        [
            share_ratio("rated_share", "flows_with_rate", "flows"),
            share_ratio("rated_bytes", "ip_bytes_with_rate", "ip_bytes"),
        ],
        {"flows": "sum(flows)"},
    ),
    [
        Metric("flows", "max(flows)", "connections", ",d"),
        text_metric("rated_share", "connections with a rate [%]"),
        text_metric("rated_bytes", "their share of bytes [%]"),
    ],
)
LOSSES = Dataset(
    "losses_by_side",
    estimate_table(
        user_group_sums("table2_loss", ["flows", "data_packets", "lost_access", "lost_internet"]),
        GROUP_COLUMNS,
        [
            share_ratio("internet_loss", "lost_internet", "data_packets + lost_internet"),
            share_ratio("access_loss", "lost_access", "data_packets"),
        ],
        {"data_packets": "sum(data_packets)"},
    ),
    [
        text_metric("internet_loss", "loss on the Internet side [%]"),
        text_metric("access_loss", "loss on the access side [%]"),
        Metric("data_packets", "max(data_packets)", "data packets seen at Gi", ",d"),
    ],
)
BOTTLENECK = Dataset(
    "bottleneck",
    f"""select {KEYS}, {USER_GROUPS}, flows,
    {label_sql("bottleneck", {key: label for key, (label, _) in fig08.SIDES.items()})} as side
from fig08_bottleneck""",
    [FLOWS, sum_by("series", "flows", "connections")],
)
LOSS = Dataset(
    "loss",
    f"""
select {KEYS}, {USER_GROUPS}, flows, data_packets, lost_access
from table2_loss
""",
    [share("access_loss", "loss on the access side", "lost_access", "data_packets")],
)
CHANNEL = Dashboard(
    "Channel and loss",
    "giscope-channel",
    filters=FILTERS,
    rows=[
        [
            histogram("Fig. 7. Available channel rate", CHANNEL_RATE, "rate_kbps",
                      "seconds_by_series",
                      "Available channel rate [kbit/s]", "Share of measured time"),
            cumulative("Fig. 7. Channel rate, peak and off-peak", CHANNEL_RATE,
                       "rate_kbps_below", "Available channel rate [kbit/s]",
                       "Cumulative share of measured time"),
        ],
        [
            table("Fig. 7. Measured periods and mean rate, with 95 % intervals", MEAN_RATES,
                  ["network", "hours"], ["periods", "seconds", "mean_rate"],
                  order="network || hours", height=52),
            table("Table II. Packet loss, with 95 % intervals", LOSSES, ["network", "hours"],
                  ["internet_loss", "access_loss", "data_packets"], order="network || hours",
                  height=52),
        ],
        [
            table("Fig. 7. Connections above 100 KB with a channel rate, with 95 % intervals",
                  RATE_COVERAGE, ["network", "window", "hours"],
                  ["flows", "rated_share", "rated_bytes"],
                  order='network || "window" || hours', height=60),
        ],
        [
            share_bars("Fig. 8. Where connections lose packets", BOTTLENECK, "side",
                       "flows_by_series", "Share of connections"),
        ],
        [
            bars("Table II. Loss on the access side by local hour", LOSS, "hour", "access_loss",
                 "network", x_title="Local hour [h]"),
        ],
    ],
    colours=dict(fig08.SIDES.values()),
)  # fmt: skip
