"""rtt_samples: RTT samples of transfers, on both sides of Gi."""

from schemas.table import DELTA, TIMESTAMP, Column, Table

DELAYED = Column(
    "delayed",
    "bool",
    "whether the ACK may be a delayed ACK: it answers a single segment",
    source="RFC 9293, 3.8.6.3",
    required=True,
)

RTT_SAMPLES = Table(
    name="rtt_samples",
    row="one RTT sample of a connection: at most one in a round trip, and at most ten a "
    "second (access) or one a second (internet), and further ones that differ by a factor "
    "of two. The quantiles in flows are of all samples. Its date is the date on which the "
    "connection starts",
    columns=(
        Column("flow_id", "int64", "the connection, as in flows", required=True),
        Column(
            "ts",
            TIMESTAMP,
            "time at Gi at which the RTT sample ends",
            required=True,
            encoding=DELTA,
        ),
        Column(
            "side",
            "string",
            "access (from a data packet at Gi to the ACK that answers it) or internet (from an "
            "ACK at Gi to the first data that it let the server send)",
            required=True,
        ),
        Column(
            "rtt",
            "double",
            "the RTT. Data that was sent twice gives one only if a timestamp shows which "
            "transmission the ACK answers",
            "s",
            "Karn and Partridge 1987; RFC 7323, 4",
            required=True,
        ),
        Column(
            "flight",
            "int64",
            "bytes in flight when the data packet passed Gi, its own included. Null on the "
            "Internet side",
            "B",
            encoding=DELTA,
        ),
        DELAYED,
    ),
)
