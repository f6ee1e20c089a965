"""The columns of the mart quic_beside_tcp."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import FLOW_COUNT, PLACE_AND_TIME, USER_GROUP

MART = Table(
    "quic_beside_tcp",
    "the connections of one local hour, protocol, measure, category or bin, and user group. Only "
    "days on which the network has QUIC connections",
    (
        *PLACE_AND_TIME,
        Column(
            "protocol",
            "string",
            "TCP (connections that the mobile opened), QUIC, or partial (QUIC connections whose "
            "beginning was not seen; they have no measure but connection)",
            required=True,
        ),
        Column(
            "measure",
            "string",
            "connection (every connection once); spin (those whose spin bit has a class); or a "
            "time: setup_delay, rtt_access or rtt_internet, as in flows and quic_flows, or "
            "spin_rtt (quic_flows.spin_rtt_median of the spin bits that spin)",
            required=True,
        ),
        Column(
            "category",
            "string",
            "of connection: setup_class, as in flows and quic_flows, null if not known; of spin: "
            "as in quic_flows. Null for times",
        ),
        Column(
            "bin",
            "int32",
            "of a time: fifty times its natural logarithm in s, rounded down: bins of 2 %. Else "
            "null",
        ),
        USER_GROUP,
        FLOW_COUNT,
        *(
            Column(
                f"{what}_{way}",
                "int64",
                f"{meaning} {direction} the mobile; 0 but for the measure connection",
                unit,
                required=True,
            )
            for what, meaning, unit in (
                ("packets", "packets", "packets"),
                ("ip_bytes", "IP bytes", "B"),
            )
            for way, direction in (("up", "from"), ("down", "to"))
        ),
        Column("value_sum", "double", "sum of their times; else 0", "s", required=True),
        Column("lowest", "double", "smallest of their times", "s"),
        Column("highest", "double", "largest of their times", "s"),
    ),
    group_columns=("hour", "protocol", "measure", "category"),
)
