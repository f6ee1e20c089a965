"""The columns of the mart limits_by_window."""

from schemas import Column, Table
from schemas.flows import LIMITS
from spark_jobs.figures.mart_columns import (
    FLOW_COUNT,
    PLACE_AND_TIME,
    USER_GROUPS,
    connection_count,
    sum_of,
)

MART = Table(
    "limits_by_window",
    "the connections of about the same MSS, window and number of parallel "
    "connections, and what limited them. Only connections with known limits count",
    (
        *PLACE_AND_TIME,
        Column(
            "mss",
            "int64",
            "maximum segment size, inferred from the largest IP packet less its fixed "
            "headers, rounded down to hundreds. Null if the downlink data fits into one such "
            "packet",
            "B",
            "RFC 9293, 3.7.1",
        ),
        Column(
            "window_segments",
            "int64",
            "the mobile's largest window in such segments, rounded: lower edge of 1, 2-3, "
            "4-7, 8-15, ...; 0 below half a segment. Null if window or segment size is not "
            "known",
            "segments",
            "Kohlwes, Riihijärvi and Mähönen, Figs. 5 to 7",
        ),
        Column(
            "parallel",
            "int64",
            "maximum number of the user's connections that were active at once, this one "
            "included (flows.parallel): lower edge of 1, 2, 3-4, 5-8, ... Null if it was "
            "never active",
            "connections",
            "Kohlwes, Riihijärvi and Mähönen, Figs. 4, 6 and 7",
        ),
        FLOW_COUNT,
        *USER_GROUPS,
        *(
            Column(
                f"limited_{limit}",
                "double",
                f"time in which {meaning}",
                "s",
                "Zhang et al., SIGCOMM 2002",
                required=True,
            )
            for limit, meaning in LIMITS.items()
        ),
        *(
            connection_count(
                f"flows_{limit}",
                f"connections whose longest limit was {limit} (flows.limited_by)",
            )
            for limit in LIMITS
        ),
        Column(
            "delay_spikes",
            "int64",
            "number of delay spikes (flows.delay_spikes). Divided by the sum of the six "
            "times, it is their rate",
            "spikes",
            required=True,
        ),
        connection_count(
            "throughput_flows",
            "connections with a single-flow throughput: single and above 100 KiB",
        ),
        sum_of("throughput", "single-flow throughputs", "bit/s"),
        connection_count(
            "user_throughput_flows", "connections with a user throughput: above 100 KiB"
        ),
        sum_of("user_throughput", "user throughputs", "bit/s"),
        Column("ip_bytes_down", "int64", "IP bytes to the mobile", "B", required=True),
    ),
    group_columns=("hour", "mss", "window_segments", "parallel"),
)
