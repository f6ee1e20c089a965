"""The columns of the mart fig07_channel_rate."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import RATE_BIN, USER_GROUPS, place_and_time

MART = Table(
    "fig07_channel_rate",
    "the measurement periods of one local hour and one bin of channel rate (Fig. 7)",
    (
        *place_and_time("the period starts"),
        RATE_BIN,
        Column("periods", "int64", "number of measurement periods", "periods", required=True),
        *USER_GROUPS,
        Column("seconds", "double", "sum of their durations", "s", required=True),
        Column("ip_bytes", "int64", "IP bytes sent in them", "B", required=True),
    ),
    group_columns=("hour",),
)
