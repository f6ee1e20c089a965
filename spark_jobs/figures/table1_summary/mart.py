"""The columns of the mart table1_summary."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import FLOW_COUNT, PLACE_AND_TIME, USER_GROUP, connection_count

MART = Table(
    "table1_summary",
    "the connections of one local hour and one user group that the mobile opened (Table I)",
    (
        *PLACE_AND_TIME,
        USER_GROUP,
        FLOW_COUNT,
        connection_count("sack", "connections with SACK permitted in both SYNs"),
        connection_count("timestamps", "connections with timestamps in both directions"),
        connection_count("mss_low", "connections with a largest IP packet of 400-600 B"),
        connection_count("mss_high", "connections with a largest IP packet of 1400-1600 B"),
        connection_count(
            "window_low", "connections with a largest window of the mobile < 10 000 B"
        ),
        connection_count(
            "window_med", "connections with a largest window of the mobile of 10 000-20 000 B"
        ),
        connection_count(
            "window_high", "connections with a largest window of the mobile > 20 000 B"
        ),
        Column("ip_bytes_up", "int64", "IP bytes from the mobile", "B", required=True),
        Column("ip_bytes_down", "int64", "IP bytes to the mobile", "B", required=True),
    ),
    group_columns=("hour",),
)
