"""The page of the channel and of losses (Figs. 7 and 8, Table II)."""

from infra.superset.charts import bars, cumulative, histogram, pivot, shares
from infra.superset.common import FILTERS, FLOWS, KEYS, USER_GROUPS, share, share_of_series, told_by
from infra.superset.parts import Dashboard, Dataset, Metric, labelled, rate_axis, told_if_enough
from spark_jobs.report import fig08
from spark_jobs.report.rates import SHOWN_BINS

FEWEST_ROUND_TRIPS = 20
"""Of which a mean is drawn."""
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
        Metric(
            "mean_rate",
            told_if_enough("8 * sum(ip_bytes) / nullif(sum(seconds), 0) / 1000", "periods"),
            "mean rate [kbit/s]",
            ",.1f",
        ),
    ],
)
RATED = Dataset(
    "rated_transfers",
    f"""select {KEYS}, {USER_GROUPS}, coalesce(window_class, 'not known') as "window",
    flows, rated_flows, ip_bytes, rated_ip_bytes
from rated_transfers""",
    [
        FLOWS,
        share("rated_share", "gave a rate", "rated_flows"),
        Metric(
            "rated_bytes",
            told_if_enough("sum(rated_ip_bytes) / nullif(sum(ip_bytes), 0)", "flows"),
            "of their bytes",
            ".2%",
        ),
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
select {KEYS}, {USER_GROUPS}, flows, data_packets, lost_access, lost_internet,
    data_packets + lost_internet as sent
from table2_loss
""",
    [
        share("internet_loss", "Internet side loss", "lost_internet", "sent"),
        share("access_loss", "Access side loss", "lost_access", "data_packets"),
        Metric("data_packets", "sum(data_packets)", "data packets seen at Gi", ",d"),
    ],
)
ROUND_TRIPS_BY_FLIGHT = Dataset(
    "rtt_by_flight",
    f"""
select {KEYS}, flight, delayed, round_trips, rtt_sum, queueing_round_trips, queueing_sum
from rtt_by_flight
""",
    [
        Metric("round_trips", "sum(round_trips)", "round trips", ",d"),
        Metric(
            "mean_rtt", "sum(rtt_sum) / nullif(sum(round_trips), 0)", "mean round trip [s]", ",.2f"
        ),
        Metric(
            "mean_queueing",
            "sum(queueing_sum) / nullif(sum(queueing_round_trips), 0)",
            "mean beyond the least of the user's hour [s]",
            ",.2f",
        ),
    ],
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
            pivot("Fig. 7. Measured periods and mean rate", CHANNEL_RATE,
                  ["periods", "seconds", "mean_rate"], columns=["network", "hours"],
                  metrics_in_rows=True, height=40),
            pivot("Table II. Packet loss", LOSS, ["internet_loss", "access_loss", "data_packets"],
                  columns=["network", "hours"], metrics_in_rows=True, height=40),
        ],
        [
            pivot("Fig. 7. Connections above 100 KB that gave a rate", RATED,
                  ["flows", "rated_share", "rated_bytes"], rows=["window"],
                  columns=["network", "hours"], height=44),
        ],
        [
            shares("Fig. 8. Where connections lose packets", BOTTLENECK, "side", "flows_by_series",
                   "Share of connections"),
        ],
        [
            bars("Table II. Access side loss by local hour", LOSS, "hour", "access_loss",
                 "network", x_title="Local hour [h]"),
        ],
        [
            bars("Access side round trip by data in flight", ROUND_TRIPS_BY_FLIGHT, "flight",
                 "mean_rtt", "series", x_title="Data in flight, from [B]", where="not delayed",
                 having=f"sum(round_trips) >= {FEWEST_ROUND_TRIPS}"),
            bars("Access side queueing by data in flight", ROUND_TRIPS_BY_FLIGHT, "flight",
                 "mean_queueing", "series", x_title="Data in flight, from [B]",
                 where="not delayed", having=f"sum(round_trips) >= {FEWEST_ROUND_TRIPS}"),
        ],
    ],
    colours=dict(fig08.SIDES.values()),
)  # fmt: skip
