"""The columns of the mart fig04_round_trip_time."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import FLOW_COUNT, PLACE_AND_TIME, SECONDS_BIN, USER_GROUPS

MART = Table(
    "fig04_round_trip_time",
    "the connections of one bin of handshake RTT on one side (Fig. 4)",
    (
        *PLACE_AND_TIME,
        Column("side", "string", "access or internet", required=True),
        SECONDS_BIN,
        FLOW_COUNT,
        *USER_GROUPS,
        Column("rtt_sum", "double", "sum of their RTTs", "s", required=True),
    ),
    group_columns=("hour", "side"),
)
