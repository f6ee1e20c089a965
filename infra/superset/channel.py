"""The page of the channel and of losses (Figs. 7 and 8, Table II)."""

from infra.superset.charts import bars, cumulative, histogram, shares, table
from infra.superset.common import FILTERS, FLOWS, KEYS, USER_GROUPS, share, share_of_series, told_by
from infra.superset.intervals import Ratio, as_told, share_of, sums, tabled
from infra.superset.parts import Dashboard, Dataset, Metric, labelled, rate_axis
from spark_jobs.report import fig08
from spark_jobs.report.rates import SHOWN_BINS

CHANNEL_RATE = Dataset(
    "channel_rate",
    rate_axis(
        "fig07_channel_rate",
        f"{KEYS}, user_groups",
        ["seconds", "periods", "ip_bytes"],
        SHOWN_BINS,
    ),
    [
        Metric("seconds", "sum(seconds)", "measured time [s]", ",.0f"),
        Metric("periods", "sum(periods)", "measurement periods", ",d"),
        told_by("series", "seconds", "measured time [s]", "periods"),
        share_of_series("seconds", "share of measured time", "periods"),
    ],
)
CELLS = ["network", "country", "access", "hours"]
RATES = Dataset(
    "mean_rates",
    tabled(
        sums("metrics", ["measured", "numerator", "denominator"], where="metric = 'channel_rate'"),
        CELLS,
        [Ratio("mean_rate", "numerator", "denominator", "measured", scale=1e-3)],
        {"periods": "sum(measured)", "seconds": "sum(denominator)"},
    ),
    [
        Metric("periods", "max(periods)", "measurement periods", ",d"),
        Metric("seconds", "max(seconds)", "measured time [s]", ",.0f"),
        as_told("mean_rate", "mean rate [kbit/s]"),
    ],
)
RATED = Dataset(
    "rated",
    tabled(
        sums(
            "channel_rate_coverage",
            ["flows", "flows_with_rate", "ip_bytes", "ip_bytes_with_rate"],
            {'"window"': "coalesce(window_class, 'not known')"},
        ),
        [*CELLS, '"window"'],
        [
            share_of("rated_share", "flows_with_rate", "flows"),
            share_of("rated_bytes", "ip_bytes_with_rate", "ip_bytes"),
        ],
        {"flows": "sum(flows)"},
    ),
    [
        Metric("flows", "max(flows)", "connections", ",d"),
        as_told("rated_share", "gave a rate [%]"),
        as_told("rated_bytes", "of their bytes [%]"),
    ],
)
LOSSES = Dataset(
    "losses_by_side",
    tabled(
        sums("table2_loss", ["flows", "data_packets", "lost_access", "lost_internet"]),
        CELLS,
        [
            share_of("internet_loss", "lost_internet", "data_packets + lost_internet"),
            share_of("access_loss", "lost_access", "data_packets"),
        ],
        {"data_packets": "sum(data_packets)"},
    ),
    [
        as_told("internet_loss", "Internet side loss [%]"),
        as_told("access_loss", "Access side loss [%]"),
        Metric("data_packets", "max(data_packets)", "data packets seen at Gi", ",d"),
    ],
)
BOTTLENECK = Dataset(
    "bottleneck",
    f"""select {KEYS}, {USER_GROUPS}, flows,
    {labelled("bottleneck", {key: label for key, (label, _) in fig08.SIDES.items()})} as side
from fig08_bottleneck""",
    [FLOWS, told_by("series", "flows", "connections")],
)
LOSS = Dataset(
    "loss",
    f"""
select {KEYS}, {USER_GROUPS}, flows, data_packets, lost_access
from table2_loss
""",
    [share("access_loss", "Access side loss", "lost_access", "data_packets")],
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
            table("Fig. 7. Measured periods and mean rate, with 95 % intervals", RATES,
                  ["network", "hours"], ["periods", "seconds", "mean_rate"],
                  order="network || hours", height=52),
            table("Table II. Packet loss, with 95 % intervals", LOSSES, ["network", "hours"],
                  ["internet_loss", "access_loss", "data_packets"], order="network || hours",
                  height=52),
        ],
        [
            table("Fig. 7. Connections above 100 KB that gave a rate, with 95 % intervals", RATED,
                  ["network", "window", "hours"], ["flows", "rated_share", "rated_bytes"],
                  order='network || "window" || hours', height=60),
        ],
        [
            shares("Fig. 8. Where connections lose packets", BOTTLENECK, "side", "flows_by_series",
                   "Share of connections"),
        ],
        [
            bars("Table II. Access side loss by local hour", LOSS, "hour", "access_loss",
                 "network", x_title="Local hour [h]"),
        ],
    ],
    colours=dict(fig08.SIDES.values()),
)  # fmt: skip
