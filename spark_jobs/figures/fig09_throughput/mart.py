"""The columns of the mart fig09_throughput."""

from schemas import Table
from spark_jobs.figures.mart_columns import (
    COUNTED_BYTES,
    FLOW_COUNT,
    PLACE_AND_TIME,
    RATE_BIN,
    USER_GROUPS,
    sum_of,
)

MART = Table(
    "fig09_throughput",
    "the large single transfers of one local hour and one bin of throughput (Fig. 9)",
    (
        *PLACE_AND_TIME,
        COUNTED_BYTES,
        RATE_BIN,
        FLOW_COUNT,
        *USER_GROUPS,
        sum_of("throughput", "single-flow throughputs", "bit/s"),
    ),
    group_columns=("hour", "counted"),
)
