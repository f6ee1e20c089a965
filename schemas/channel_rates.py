"""channel_rates: one row a period in which a user's downlink was saturated."""

import pyarrow as pa

from schemas.table import TIMESTAMP, Column, Table

CHANNEL_RATES = Table(
    name="channel_rates",
    row="one period in which a connection kept its user's link busy, without loss, reordering or "
    "retransmission, on the date on which the connection starts",
    columns=(
        Column("flow_id", pa.int64(), "the connection, as in flows", required=True),
        Column("user", pa.string(), "the subscriber's key", required=True),
        Column("start_ts", TIMESTAMP, "the period's first ACK at Gi", required=True),
        Column("end_ts", TIMESTAMP, "the period's last ACK at Gi", required=True),
        Column(
            "ip_bytes",
            pa.int64(),
            "IP bytes to the user, of all connections and protocols, that the ACKs enclose",
            "B",
            "INFOCOM IV",
            required=True,
        ),
        Column(
            "rate",
            pa.float64(),
            "the link's rate at the IP layer, between the period's prompt ACKs",
            "bit/s",
            "INFOCOM IV",
            required=True,
        ),
    ),
    sorted_by=("start_ts", "flow_id"),
)
