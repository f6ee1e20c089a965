"""The columns of the mart fig13_user_throughput."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import (
    COUNTED_BYTES,
    FLOW_COUNT,
    PLACE_AND_TIME,
    RATE_BIN,
    USER_GROUP,
    sum_of,
)

MART = Table(
    "fig13_user_throughput",
    "the large transfers of one level of background traffic, one bin of user throughput "
    "and one user group (Fig. 13)",
    (
        *PLACE_AND_TIME,
        Column(
            "background_thirds",
            "int32",
            "level of background traffic, b_other / (b_tcp + b_other): 0 (below 1/3), 1 (from "
            "1/3 to 2/3) or 2 (2/3 and more)",
            source="INFOCOM VI.B",
            required=True,
        ),
        COUNTED_BYTES,
        RATE_BIN,
        FLOW_COUNT,
        USER_GROUP,
        sum_of("user_throughput", "user throughputs", "bit/s"),
    ),
    group_columns=("hour", "background_thirds", "counted"),
)
