"""The columns of the mart rtt_by_flight."""

from schemas import Column, Table
from schemas.rtt_samples import DELAYED
from spark_jobs.figures.mart_columns import USER_GROUPS, log_bin, place_and_time, sum_of

MART = Table(
    "rtt_by_flight",
    "the RTT samples on the access side that ended in one local hour, of one bin of "
    "bytes in flight and one bin of the RTT. The samples are those of the table "
    "rtt_samples: of each connection at most one in a round trip and ten a second, "
    "and further ones that differ by a factor of two",
    (
        *place_and_time("the RTT sample ends"),
        Column(
            "flight",
            "int64",
            "lower edge of the bin of bytes in flight when the data packet passed Gi, its own "
            "included: half powers of two, rounded down (1024, 1448, 2048, 2896, ...)",
            "B",
            required=True,
        ),
        log_bin("bin", "the RTT in s"),
        DELAYED,
        *USER_GROUPS,
        Column("rtt_samples", "int64", "number of RTT samples", "RTT samples", required=True),
        sum_of("rtt", "RTTs", "s"),
        Column(
            "queueing_samples",
            "int64",
            "of these, samples for which the user's base RTT of the hour of UTC is known "
            "(links.rtt_min)",
            "RTT samples",
            required=True,
        ),
        Column(
            "queueing_sum",
            "double",
            "sum of the differences between their RTTs and the base RTT",
            "s",
            required=True,
        ),
    ),
    group_columns=("hour", "flight", "delayed"),
)
