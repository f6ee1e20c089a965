"""losses: one row for each downlink data packet inferred lost."""

from schemas.table import DELTA, PLAIN, TIMESTAMP, Column, Table

LOSSES = Table(
    name="losses",
    row="one downlink data packet inferred lost, of a connection whose losses are known "
    "(flows.lost_access, flows.lost_internet). Its date is the date on which the "
    "connection starts",
    columns=(
        Column("flow_id", "int64", "the connection, as in flows", required=True, encoding=PLAIN),
        Column(
            "side",
            "string",
            "access (the packet passed Gi and did not reach the mobile) or internet (the packet "
            "did not reach Gi)",
            source="INFOCOM V",
            required=True,
        ),
        Column("capture", "string", "capture that has the lost packet. Null on the Internet side"),
        Column(
            "frame",
            "int64",
            "the packet's number in that capture. Null on the Internet side",
            encoding=DELTA,
        ),
        Column(
            "ts",
            TIMESTAMP,
            "access: the packet's time at Gi; internet: the time at which its absence was noticed "
            "at Gi",
            required=True,
            encoding=DELTA,
        ),
        Column(
            "seq",
            "uint32",
            "the packet's sequence number on the wire",
            source="RFC 9293",
            encoding=PLAIN,
        ),
        Column("payload_len", "int64", "the packet's payload", "B", required=True),
        Column(
            "probability",
            "double",
            "probability that the packet was lost: 1 if the evidence decides. Otherwise, on the "
            "access side: the probability that the queue had no room, or the connection's share "
            "of lost packets, so that sums are unbiased. Otherwise, on the Internet side: the "
            "probability that the packet was neither overtaken nor dropped by the capture",
            required=True,
        ),
        Column(
            "evidence",
            "string",
            "rule that decided the loss. On the access side: order (only a loss agrees with FIFO "
            "order), sack or dup_acks (the most likely history of the receiver, with or without "
            "SACK), silence (no ACK came), counted (ACKs show how many of several packets were "
            "lost, but not which) or undecided (the observation ended before). On the "
            "Internet side: hole (a hole in the sequence space that a retransmission filled or "
            "that stayed open), tail (pending data came only after an RTO expiry), skipped (later "
            "retransmissions passed Gi without this one), timeout (a retransmission that ACKs "
            "called for came only after an RTO expiry), ip_id (an IP ID is missing in the "
            "sequence of the connection's packets) or undecided (the data that filled a hole may "
            "have been overtaken)",
            required=True,
        ),
    ),
    sorted_by=("ts", "flow_id", "seq", "frame"),
)
