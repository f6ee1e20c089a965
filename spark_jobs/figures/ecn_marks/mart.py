"""The columns of the mart ecn_marks."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import FLOW_COUNT, PLACE_AND_TIME, USER_GROUP

MART = Table(
    "ecn_marks",
    "the connections of one local hour, one user group and one kind of ECN, with the marks and the "
    "losses of their downlink packets. Only connections with known losses count",
    (
        *PLACE_AND_TIME,
        USER_GROUP,
        Column("ecn", "string", "none, classic or accurate (see flows)", required=True),
        FLOW_COUNT,
        *(
            Column(name, kind, meaning, unit, source, required=True)
            for name, kind, meaning, unit, source in (
                ("data_packets", "int64", "downlink packets with data seen at Gi", "packets", ""),
                ("ect_packets", "int64", "downlink packets that can be marked (flows.ect_down)",
                 "packets", "RFC 3168, 5"),
                ("marked_internet", "int64", "of these, packets marked on the Internet side",
                 "packets", "RFC 3168, 5"),
                ("counted_packets", "int64", "packets that can be marked, of connections whose "
                 "marks on the access side are counted (accurate ECN)", "packets", "RFC 9768"),
                ("marked_access", "int64", "of these, packets marked on the access side",
                 "packets", "RFC 9768, 3.2"),
                ("episodes_access", "int64", "episodes of ECE by marks on the access side "
                 "(classic ECN)", "episodes", "RFC 3168, 6.1"),
                ("episodes_internet", "int64", "episodes of ECE by marks on the Internet side "
                 "(classic ECN)", "episodes", "RFC 3168, 6.1"),
                ("lost_access", "double", "expected losses on the access side", "packets",
                 "INFOCOM V"),
                ("lost_internet", "double", "expected losses on the Internet side", "packets",
                 "INFOCOM V"),
            )
        ),
    ),
    group_columns=("hour", "ecn"),
)  # fmt: skip
