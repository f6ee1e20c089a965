"""rtt_samples: round trips through transfers, on either side of Gi."""

import pyarrow as pa

from schemas.table import DELTA, TIMESTAMP, Column, Table

DELAYED = Column(
    "delayed",
    pa.bool_(),
    "the ACK answers one segment alone: it may have waited for a second",
    source="RFC 9293, 3.8.6.3",
    required=True,
)

RTT_SAMPLES = Table(
    name="rtt_samples",
    row="one round trip of a connection, on the date on which it starts: of all seen, one in a "
    "round trip at most and ten a second (access) or one (internet), and those that differ by a "
    "factor of two; flows has the quantiles of all",
    columns=(
        Column("flow_id", pa.int64(), "the connection, as in flows", required=True),
        Column("ts", TIMESTAMP, "when it ended at Gi", required=True, encoding=DELTA),
        Column(
            "side",
            pa.string(),
            "access (a data packet passes Gi, and the ACK that answers it) or internet (an ACK "
            "passes Gi, and the first data that it let the server send)",
            required=True,
        ),
        Column(
            "rtt",
            pa.float64(),
            "the round trip; never of data sent twice, unless a timestamp tells which copy is "
            "answered",
            "s",
            "Karn and Partridge 1987; RFC 7323, 4",
            required=True,
        ),
        Column(
            "flight",
            pa.int64(),
            "bytes sent and not acknowledged when the data packet passed Gi, its own included; "
            "null on the internet side",
            "B",
            encoding=DELTA,
        ),
        DELAYED,
    ),
)
