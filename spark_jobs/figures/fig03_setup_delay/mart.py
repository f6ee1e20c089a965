"""The columns of the mart fig03_setup_delay."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import FLOW_COUNT, PLACE_AND_TIME, SECONDS_BIN, USER_GROUPS

MART = Table(
    "fig03_setup_delay",
    "the connections of one set-up category and one bin of set-up delay (Fig. 3)",
    (
        *PLACE_AND_TIME,
        Column(
            "single",
            "bool",
            "whether the set-up had one SYN and one SYN ACK",
            source="INFOCOM III.A",
            required=True,
        ),
        Column(
            "background",
            "bool",
            "whether the user had background traffic before or during the set-up "
            "(flows.setup_background)",
            source="INFOCOM III.A",
            required=True,
        ),
        SECONDS_BIN,
        FLOW_COUNT,
        *USER_GROUPS,
        Column("delay_sum", "double", "sum of their set-up delays", "s", required=True),
    ),
    group_columns=("hour", "single", "background"),
)
