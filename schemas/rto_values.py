"""rto_values: the retransmission timeouts of servers over time."""

from schemas.table import DELTA, TIMESTAMP, Column, Table

RTO_VALUES = Table(
    name="rto_values",
    row="the retransmission timeout (RTO) of a connection's server from a time on. A "
    "connection gets a new row when its RTO has changed by 1/32 or more. Its date is the "
    "date on which the connection starts",
    columns=(
        Column("flow_id", "int64", "the connection, as in flows", required=True),
        Column(
            "ts",
            TIMESTAMP,
            "time from which the RTO holds, by the server's clock",
            required=True,
            encoding=DELTA,
        ),
        Column(
            "rto",
            "double",
            "the RTO, computed from the RTTs that the server measured",
            "s",
            "RFC 6298",
            required=True,
        ),
        Column(
            "duration",
            "double",
            "time until the connection's next row, or until its last packet",
            "s",
            required=True,
        ),
        Column(
            "rtt",
            "double",
            "latest RTT on the access side at that time (rtt_samples). Null before the first",
            "s",
        ),
        Column(
            "backed_off",
            "bool",
            "true: the RTO was doubled after an RTO expiry; false: a new RTT sample changed it",
            source="RFC 6298, 5.5",
            required=True,
        ),
        Column(
            "rule",
            "string",
            "how the server computes the RTO, inferred from the times of its expiries: linux (one "
            "RTT sample an ACK, maximum deviation over a round trip) or rfc6298 (one RTT sample a "
            "round trip)",
            source="RFC 6298, 2",
            required=True,
        ),
    ),
)
