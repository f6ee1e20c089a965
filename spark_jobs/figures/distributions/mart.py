"""The columns of the mart distributions."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import PLACE_AND_TIME, USER_GROUP

MART = Table(
    "distributions",
    "the samples of one measure and one bin of 2 %, of one user group in one period "
    "of the day, for confidence intervals of the means and quantiles of Figs. 3, 4, "
    "7, 9 and 13, and of users' largest RTTs",
    (
        *(column for column in PLACE_AND_TIME if column.name != "hour"),
        Column(
            "measure",
            "string",
            "setup_delay, rtt_access, rtt_internet, throughput, throughput_received, "
            "user_throughput or user_throughput_received, as in flows; channel_rate; or "
            "rtt_max or queue_s, as in links, with one sample for each user and hour",
            required=True,
        ),
        Column(
            "category",
            "string",
            "of setup_delay: single (one SYN and one SYN ACK) or repeated, with or without "
            "background traffic; of the user throughputs: the third of background traffic, as "
            "in fig13_user_throughput. Else empty",
            required=True,
        ),
        USER_GROUP,
        Column(
            "bin",
            "int32",
            "fifty times the natural logarithm of the value in s or bit/s, rounded down",
            required=True,
        ),
        Column("samples", "int64", "number of samples", "samples", required=True),
        Column(
            "weight",
            "double",
            "sum of their weights: of channel_rate, the seconds for which it was measured; "
            "else 1 for each sample",
            required=True,
        ),
        Column(
            "weighted_sum",
            "double",
            "sum of weight times value, in s or bit/s",
            required=True,
        ),
        Column("lowest", "double", "smallest value, in s or bit/s"),
        Column("highest", "double", "largest value, in s or bit/s"),
    ),
    group_columns=("period", "measure", "category"),
)
