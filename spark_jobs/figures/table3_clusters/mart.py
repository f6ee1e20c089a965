"""The columns of the mart table3_clusters."""

import pyarrow as pa

from schemas import Column, Table
from spark_jobs.figures.mart_columns import FLOW_COUNT, PLACE_AND_TIME, USER_GROUP, sum_of

MART = Table(
    "table3_clusters",
    "the single greedy transfers of more than 32 KiB of distinct payload, of one cluster of TCP "
    "options (Table III, Figs. 14 to 17)",
    (
        *PLACE_AND_TIME,
        Column("mss_class", pa.string(), "low, high or other, as in flows", required=True),
        Column("window_class", pa.string(), "low, med or high, as in flows", required=True),
        Column("sack", pa.bool_(), "whether both SYNs permit SACK", required=True),
        Column("timestamps", pa.bool_(), "whether both directions have timestamps", required=True),
        Column(
            "size_class",
            pa.int32(),
            "bytes transferred, in powers of two: 15 is 32 to 64 KiB",
            "log2 B",
            required=True,
        ),
        USER_GROUP,
        Column(
            "rate_bin",
            pa.int32(),
            "bin of the rate of the user's access link in the hour of UTC in which the transfer "
            "starts (links.rate): hundred times its natural logarithm in bit/s, rounded down. Null "
            "if it is not known",
            source="INFOCOM IV",
        ),
        FLOW_COUNT,
        sum_of("goodput", "goodputs", "bit/s"),
        Column(
            "goodput_squares",
            pa.float64(),
            "sum of the squares of the goodputs",
            "bit²/s²",
            required=True,
        ),
        sum_of("log_goodput", "natural logarithms of the goodputs in bit/s", "1"),
    ),
    group_columns=("hour", "mss_class", "window_class", "sack", "timestamps"),
)
