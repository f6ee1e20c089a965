"""The columns of the mart rto_by_options."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import OPTIONS, USER_GROUPS, log_bin, place_and_time

MART = Table(
    "rto_by_options",
    "the RTOs that took effect in one local hour, of one pair of TCP options and one "
    "bin of one measure",
    (
        *place_and_time("the RTO takes effect"),
        *OPTIONS,
        Column(
            "backed_off",
            "bool",
            "true: the RTO was doubled after an RTO expiry; false: a new RTT sample changed "
            "it (rto_values.backed_off)",
            source="RFC 6298, 5.5",
            required=True,
        ),
        Column(
            "measure",
            "string",
            "rto: the RTO in s, for each RTO; rto_by_rtt: the RTO divided by the round trip, "
            "for each RTO for which both are known. The round trip is the connection's latest "
            "RTT on the access side (rtt_samples) plus its smallest RTT on the Internet side "
            "(flows.rtt_internet_min)",
            required=True,
        ),
        log_bin("bin", "the measure"),
        *USER_GROUPS,
        Column(
            "changes",
            "int64",
            "number of RTOs: one each time that the RTO changed by 1/32 or more (rto_values)",
            "RTOs",
            required=True,
        ),
        Column(
            "seconds",
            "double",
            "sum of the times in which they held: until the next RTO, or until the "
            "connection's end",
            "s",
            required=True,
        ),
        Column(
            "weighted_sum",
            "double",
            "sum of the measure times this time. Divided by seconds, it is the mean",
            required=True,
        ),
    ),
    group_columns=("hour", "sack", "timestamps", "backed_off", "measure"),
)
