"""losses: one row a downlink data packet inferred lost."""

import pyarrow as pa

from schemas.table import DELTA, PLAIN, TIMESTAMP, Column, Table

LOSSES = Table(
    name="losses",
    row="one downlink data packet inferred lost, on the date on which its connection starts; of "
    "connections of which that is known (flows.lost_access, lost_internet)",
    columns=(
        Column("flow_id", pa.int64(), "the connection, as in flows", required=True, encoding=PLAIN),
        Column(
            "side",
            pa.string(),
            "access (seen at Gi, never reached the mobile) or internet (never seen at Gi)",
            source="INFOCOM V",
            required=True,
        ),
        Column("capture", pa.string(), "file of the lost packet; null on the Internet side"),
        Column(
            "frame",
            pa.int64(),
            "the lost packet's number there; null on the Internet side",
            encoding=DELTA,
        ),
        Column(
            "ts",
            TIMESTAMP,
            "access: the packet's time at Gi; internet: when it was missed at Gi",
            required=True,
            encoding=DELTA,
        ),
        Column(
            "seq",
            pa.uint32(),
            "its sequence number on the wire",
            source="RFC 9293",
            encoding=PLAIN,
        ),
        Column("payload_len", pa.int64(), "its payload", "B", required=True),
        Column(
            "probability",
            pa.float64(),
            "of having been lost: 1 where the evidence decides; access: else that the queue behind "
            "Gi had no room, or the share lost of the connection, so that sums are unbiased; "
            "internet: else that it was not overtaken, nor dropped by the capture",
            required=True,
        ),
        Column(
            "evidence",
            pa.string(),
            "access: order (FIFO order alone proves it), sack or dup_acks (the likeliest history "
            "of the receiver, with SACK or without), silence (no ACK came), undecided (the "
            "observation ended first); internet: hole (in the sequence space, filled by a retransmission "
            "or open to the end), tail (what was pending came only after a timeout), skipped (a "
            "retransmission that others went past), timeout (a retransmission that ACKs called for came only after "
            "a timeout), ip_id (IP IDs that count the connection's packets lack one), undecided "
            "(what filled a hole may have been overtaken)",
            required=True,
        ),
    ),
    sorted_by=("ts", "flow_id", "seq", "frame"),
)
