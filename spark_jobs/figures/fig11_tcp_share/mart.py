"""The columns of the mart fig11_tcp_share."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import FLOW_COUNT, PLACE_AND_TIME, USER_GROUP

MART = Table(
    "fig11_tcp_share",
    "the large transfers of one bin of their share in their user's bytes (Fig. 11)",
    (
        *PLACE_AND_TIME,
        Column(
            "bin",
            "double",
            "lower edge of the bin of b_tcp / (b_tcp + b_other), in sixtieths, of which twentieths "
            "and thirds are made. Without background traffic it is 1",
            source="INFOCOM VI.B",
            required=True,
        ),
        USER_GROUP,
        FLOW_COUNT,
    ),
    group_columns=("hour",),
)
