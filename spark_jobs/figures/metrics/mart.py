"""The columns of the mart metrics."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import USER_GROUP, place_and_time

METRICS = {
    "setup_delay": "set-up delay, mean",
    "setup_failed": "share of set-ups that fail",
    "rtt_access": "RTT of the handshake on the access side, mean",
    "rtt_internet": "RTT of the handshake on the Internet side, mean",
    "channel_rate": "channel rate, mean over the time in which it was measured",
    "loss_access": "share of the data packets at Gi that were lost on the access side",
    "loss_internet": "share of the data packets sent that were lost on the Internet side",
    "throughput": "throughput of single transfers above 100 KiB, bytes that arrived, mean",
    "goodput": "goodput of transfers above 32 KiB, mean",
    "parallel": "share of connections with others of their user at once",
}
"""Meanings of the metrics by which networks, days and hours are compared."""

MART = Table(
    "metrics",
    "one metric of the connections, or of the channel-rate periods, of one local hour "
    "and one user group",
    (
        *place_and_time("the connection or period starts"),
        Column(
            "metric",
            "string",
            "; ".join(f"{name}: {meaning}" for name, meaning in METRICS.items()),
            required=True,
        ),
        USER_GROUP,
        Column(
            "measured",
            "int64",
            "number of connections, or of periods of a channel rate",
            required=True,
        ),
        Column(
            "numerator",
            "double",
            "the metric is the sum of this column divided by the sum of denominator: seconds, "
            "connections, packets, bits or bit/s",
            required=True,
        ),
        Column(
            "denominator",
            "double",
            "number of connections; of channel_rate: seconds; of losses: packets",
            required=True,
        ),
    ),
    group_columns=("hour", "metric"),
)
