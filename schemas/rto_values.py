"""rto_values: the servers' retransmission timeouts over time."""

import pyarrow as pa

from schemas.table import DELTA, TIMESTAMP, Column, Table

RTO_VALUES = Table(
    name="rto_values",
    row="the retransmission timeout of a connection's server from a time on, on the date on which "
    "the connection starts; a row where it changed by 1/32 or more",
    columns=(
        Column("flow_id", pa.int64(), "the connection, as in flows", required=True),
        Column("ts", TIMESTAMP, "since when, by the server's clock", required=True, encoding=DELTA),
        Column(
            "rto",
            pa.float64(),
            "the timeout, replayed from the round trips that the server measured",
            "s",
            "RFC 6298",
            required=True,
        ),
        Column(
            "duration",
            pa.float64(),
            "until the connection's next row, or its last packet",
            "s",
            required=True,
        ),
        Column(
            "rtt",
            pa.float64(),
            "the access side's round trip measured last by then (rtt_samples); null before any",
            "s",
        ),
        Column(
            "backed_off",
            pa.bool_(),
            "true: it was doubled, for the timer had gone off; false: a round trip was measured",
            source="RFC 6298, 5.5",
            required=True,
        ),
        Column(
            "rule",
            pa.string(),
            "how the server computes it, told by when it went off: linux (a sample an ACK, the "
            "deviation's maximum over a round trip), rfc6298 (a sample a round trip)",
            source="RFC 6298, 2",
            required=True,
        ),
    ),
)
