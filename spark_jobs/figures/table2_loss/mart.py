"""The columns of the mart table2_loss."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import FLOW_COUNT, PLACE_AND_TIME, USER_GROUP

MART = Table(
    "table2_loss",
    "the downlink data packets of the connections of one local hour and one user group (Table II)",
    (
        *PLACE_AND_TIME,
        USER_GROUP,
        FLOW_COUNT,
        Column(
            "data_packets",
            "int64",
            "downlink packets with data seen at Gi, retransmissions included",
            "packets",
            "INFOCOM V",
            required=True,
        ),
        Column(
            "lost_access",
            "double",
            "of these, expected losses on the access side",
            "packets",
            "INFOCOM V",
            required=True,
        ),
        Column(
            "lost_access_min",
            "int64",
            "losses on the access side if all packets whose fate is undecided arrived",
            "packets",
            required=True,
        ),
        Column(
            "lost_access_max",
            "int64",
            "losses on the access side if all packets whose fate is undecided were lost",
            "packets",
            required=True,
        ),
        Column(
            "lost_internet",
            "double",
            "expected losses on the Internet side: data packets that Gi never saw",
            "packets",
            "INFOCOM V",
            required=True,
        ),
    ),
    group_columns=("hour",),
)
