"""The columns of the mart table3_clusters."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import FLOW_COUNT, PLACE_AND_TIME, USER_GROUP, sum_of

MART = Table(
    "table3_clusters",
    "the single greedy transfers of more than 32 KiB of distinct payload, of one cluster of TCP "
    "options (Table III, Figs. 14 to 17)",
    (
        *PLACE_AND_TIME,
        Column("mss_class", "string", "low, high or other, as in flows", required=True),
        Column("window_class", "string", "low, med or high, as in flows", required=True),
        Column("sack", "bool", "whether both SYNs permit SACK", required=True),
        Column("timestamps", "bool", "whether both directions have timestamps", required=True),
        Column(
            "size_class",
            "int32",
            "bytes transferred, in powers of two: 15 is 32 to 64 KiB",
            "log2 B",
            required=True,
        ),
        USER_GROUP,
        Column(
            "rate_bin",
            "int32",
            "bin of the rate of the user's access link in the hour of UTC in which the transfer "
            "starts (links.rate): hundred times its natural logarithm in bit/s, rounded down. Null "
            "if it is not known",
            source="INFOCOM IV",
        ),
        FLOW_COUNT,
        sum_of("goodput", "goodputs", "bit/s"),
        Column(
            "goodput_squares",
            "double",
            "sum of the squares of the goodputs",
            "bit²/s²",
            required=True,
        ),
        sum_of("log_goodput", "natural logarithms of the goodputs in bit/s", "1"),
    ),
    group_columns=("hour", "mss_class", "window_class", "sack", "timestamps"),
)
