"""retransmissions: one row for each downlink retransmission."""

from schemas.table import DELTA, PLAIN, TIMESTAMP, Column, Table

RETRANSMISSIONS = Table(
    name="retransmissions",
    row="one downlink retransmission of data, of a SYN, of a SYN ACK or of a FIN, but not a "
    "window probe or a keep-alive. Its date is the date on which the connection starts",
    columns=(
        Column("flow_id", "int64", "the connection, as in flows", required=True, encoding=PLAIN),
        Column("capture", "string", "capture that has the packet", required=True),
        Column(
            "frame",
            "int64",
            "the packet's number in that capture",
            required=True,
            encoding=DELTA,
        ),
        Column(
            "original_frame",
            "int64",
            "the last packet before it with some of the same data, in the same capture or the one "
            "before. Null if Gi never saw one",
            encoding=DELTA,
        ),
        Column("ts", TIMESTAMP, "the packet's time at Gi", required=True, encoding=DELTA),
        Column(
            "needed",
            "bool",
            "whether the earlier transmission of its data was lost, or dropped by the mobile for "
            "its old timestamp (PAWS, no loss). Null without data, if flows.lost_access is not "
            "known, or if the evidence does not decide, for example if a mobile that sends "
            "D-SACKs sent none",
            source="RFC 3522, 2883; RFC 7323, 5.3",
        ),
        Column(
            "cause",
            "string",
            "why the server sent it: synack (a SYN ACK, retransmitted), rto (an RTO expiry), tlp "
            "(a loss probe, which may carry new data: see new_data), fast (duplicate ACKs or SACK "
            "blocks called for it, or it belongs to the rest of that recovery), slow_start "
            "(ACKs after an rto, until all losses are repaired) or pmtu (ICMP said that packets "
            "were too big). Null if the packet seems to have been sent in its turn, or if the RTT "
            "on the Internet side is not known",
            source="RFC 5681, 6298, 6582, 6675, 8985, 1191, 8201",
        ),
        Column(
            "new_data",
            "bool",
            "true if it is a loss probe with data that was not sent before: not a retransmission",
            source="RFC 8985, 7.3",
            required=True,
        ),
        Column(
            "spurious_rto",
            "bool",
            "of cause rto: whether the server can detect by F-RTO that the RTO expiry was "
            "spurious, as Linux counts (TCPSpuriousRTOs). Only the first retransmission after an "
            "expiry counts. Null for other causes",
            source="RFC 5682",
        ),
        Column(
            "spurious_by",
            "string",
            "of cause rto: all signs that the RTO expiry was spurious, joined by +: frto (data "
            "sent once before the expiry arrived after it), eifel (the echoed timestamp is older "
            "than the retransmission's) or dsack (its data arrived twice). Null without a sign",
            source="RFC 5682, 3522, 3708",
        ),
    ),
    sorted_by=("ts", "flow_id", "frame"),
)
