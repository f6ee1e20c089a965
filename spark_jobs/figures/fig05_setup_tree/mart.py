"""The columns of the mart fig05_setup_tree."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import FLOW_COUNT, PLACE_AND_TIME, USER_GROUP, connection_count

MART = Table(
    "fig05_setup_tree",
    "the connections of one leaf of the set-up tree (Fig. 5)",
    (
        *PLACE_AND_TIME,
        Column("setup_class", "string", "set-up category, as in flows", required=True),
        Column(
            "setup_retransmission",
            "string",
            "of slight_problem: as in flows. Null for other categories",
        ),
        Column(
            "setup_reset",
            "bool",
            "of serious_problem: whether an RST ended the set-up. Null for other categories",
        ),
        Column(
            "reset_by",
            "string",
            "of a set-up that an RST ended (refused, or serious_problem with setup_reset): "
            "sender of the RST, as in flows. Null for other set-ups, or if nothing else came "
            "from that end",
            source="Weaver, Sommer and Paxson, NDSS 2009",
        ),
        Column(
            "background",
            "bool",
            "whether the user had background traffic before or during the set-up "
            "(flows.setup_background)",
            required=True,
        ),
        USER_GROUP,
        FLOW_COUNT,
        connection_count("delay_flows", "of these, connections with a set-up delay"),
        Column("delay_sum", "double", "sum of their set-up delays", "s", required=True),
    ),
    group_columns=(
        "hour",
        "setup_class",
        "setup_retransmission",
        "setup_reset",
        "reset_by",
        "background",
    ),
)
