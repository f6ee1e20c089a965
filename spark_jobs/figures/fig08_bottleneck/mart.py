"""The columns of the mart fig08_bottleneck."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import FLOW_COUNT, PLACE_AND_TIME, USER_GROUP

MART = Table(
    "fig08_bottleneck",
    "the connections with more losses on the same side (Fig. 8)",
    (
        *PLACE_AND_TIME,
        Column(
            "bottleneck",
            "string",
            "side with more losses: access or internet; equal; or none",
            required=True,
        ),
        USER_GROUP,
        FLOW_COUNT,
    ),
    group_columns=("hour", "bottleneck"),
)
