"""The columns of the mart examples."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import PLACE_AND_TIME

MART = Table(
    "examples",
    "the connection of one local hour that one limit, or stalls of one class, held up the longest",
    (
        *PLACE_AND_TIME,
        Column(
            "kind",
            "string",
            "limit or stall. The example of a limit is one of the connections that this limit "
            "held up longer than other limits (flows.limited_by)",
            required=True,
        ),
        Column(
            "cause",
            "string",
            "the limit, as in flows.limited_by, or the class of the stalls",
            required=True,
        ),
        Column(
            "flow_id",
            "int64",
            "the connection, as in flows, for `giscope why` and `giscope plot`",
            required=True,
        ),
        Column("held_up", "double", "total time for which it was held up", "s", required=True),
    ),
    group_columns=("hour", "kind", "cause"),
)
