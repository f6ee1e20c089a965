"""The columns of the mart worst_connections."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import PLACE_AND_TIME

MART = Table(
    "worst_connections",
    "one of the 20 worst connections of one local hour in one respect",
    (
        *PLACE_AND_TIME,
        Column(
            "worst_by",
            "string",
            "slowest (least goodput, of more than 32 KiB), most_stalled (longest time in stalls) "
            "or most_lossy (largest loss, of at least 20 data packets)",
            required=True,
        ),
        Column(
            "flow_id",
            "int64",
            "the connection, as in flows, for `giscope serve`, `why` and `plot`",
            required=True,
        ),
        Column(
            "payload_bytes_down",
            "int64",
            "distinct payload bytes to the mobile, as in flows",
            "B",
            required=True,
        ),
        Column("goodput", "double", "distinct payload per second, as in flows", "bit/s"),
        Column("stalled", "double", "total time of its stalls", "s", required=True),
        Column(
            "data_packets_down",
            "int64",
            "packets with payload to the mobile, as in flows",
            "packets",
            required=True,
        ),
        Column(
            "loss",
            "double",
            "share of the data packets to the mobile that were lost on either side (expected "
            "losses). Null if the losses are not known",
        ),
        Column("limited_by", "string", "the limit of the transfer, as in flows"),
    ),
    group_columns=("hour", "worst_by", "flow_id", "limited_by"),
)
