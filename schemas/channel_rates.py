"""channel_rates: one row for each period in which a user's downlink was saturated."""

from schemas.table import TIMESTAMP, Column, Table

CHANNEL_RATES = Table(
    name="channel_rates",
    row="one period in which a connection kept its user's link busy, without loss, reordering "
    "or retransmission. Its date is the date on which the connection starts",
    columns=(
        Column("flow_id", "int64", "the connection, as in flows", required=True),
        Column("user", "string", "the user's key", required=True),
        Column("start_ts", TIMESTAMP, "time of the first ACK of the period at Gi", required=True),
        Column("end_ts", TIMESTAMP, "time of the last ACK of the period at Gi", required=True),
        Column(
            "ip_bytes",
            "int64",
            "downlink IP bytes of the user, of all connections and protocols, that these two ACKs "
            "enclose",
            "B",
            "INFOCOM IV",
            required=True,
        ),
        Column(
            "rate",
            "double",
            "the link's rate at the IP layer, between prompt ACKs of the period",
            "bit/s",
            "INFOCOM IV",
            required=True,
        ),
    ),
    sorted_by=("start_ts", "flow_id"),
)
