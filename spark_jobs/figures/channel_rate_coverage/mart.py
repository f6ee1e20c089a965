"""The columns of the mart channel_rate_coverage."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import FLOW_COUNT, PLACE_AND_TIME, USER_GROUP, connection_count

MART = Table(
    "channel_rate_coverage",
    "the connections of more than 100 KiB of one class of window, and those of them "
    "with a known channel rate (Fig. 7)",
    (
        *PLACE_AND_TIME,
        Column(
            "window_class",
            "string",
            "low, med or high, as in flows. Null if the window is not known",
        ),
        USER_GROUP,
        FLOW_COUNT,
        connection_count("flows_with_rate", "of these, connections with a period in channel_rates"),
        Column(
            "ip_bytes",
            "int64",
            "IP bytes to the mobile, of all connections",
            "B",
            required=True,
        ),
        Column(
            "ip_bytes_with_rate",
            "int64",
            "IP bytes to the mobile, of connections with a period in channel_rates",
            "B",
            required=True,
        ),
    ),
    group_columns=("hour", "window_class"),
)
