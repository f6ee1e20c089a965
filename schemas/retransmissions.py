"""retransmissions: one row a downlink data packet sent again."""

import pyarrow as pa

from schemas.table import DELTA, PLAIN, TIMESTAMP, Column, Table

RETRANSMISSIONS = Table(
    name="retransmissions",
    row="one downlink packet with data that Gi had seen before or that fills a hole, on the date "
    "on which its connection starts",
    columns=(
        Column("flow_id", pa.int64(), "the connection, as in flows", required=True, encoding=PLAIN),
        Column("capture", pa.string(), "file of the packet", required=True),
        Column("frame", pa.int64(), "the packet's number there", required=True, encoding=DELTA),
        Column(
            "original_frame",
            pa.int64(),
            "the last packet before it with some of the same data, in the same capture or the one "
            "before; null if Gi never saw one",
            encoding=DELTA,
        ),
        Column("ts", TIMESTAMP, "the packet's time at Gi", required=True, encoding=DELTA),
        Column(
            "needed",
            pa.bool_(),
            "the earlier copy was lost; null where the evidence does not decide",
            source="RFC 3522",
        ),
    ),
    sorted_by=("ts", "flow_id", "frame"),
)
