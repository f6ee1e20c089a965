"""retransmissions: one row a downlink packet retransmitted."""

import pyarrow as pa

from schemas.table import DELTA, PLAIN, TIMESTAMP, Column, Table

RETRANSMISSIONS = Table(
    name="retransmissions",
    row="one downlink packet retransmitted, be it data, a SYN, a SYN ACK or a FIN, but no zero-window "
    "probe or keep-alive; on the date on which its connection starts",
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
            "the earlier copy of its data was lost, or thrown away by the mobile for its old "
            "timestamp (PAWS; no loss); null where the evidence does not decide, as where a mobile "
            "that reports what comes twice did not report it, without data, and where "
            "flows.lost_access is not known",
            source="RFC 3522, 2883; RFC 7323, 5.3",
        ),
        Column(
            "cause",
            pa.string(),
            "why the server sent it: synack (a SYN ACK again), rto (its timer went off), tlp (a "
            "loss probe, which may carry new data: see new_data), fast (duplicate ACKs or SACK "
            "blocks, and the rest of that recovery), slow_start (ACKs after an rto, until all is "
            "repaired); null where it looks to have been sent in its turn, and where the round "
            "trip on the Internet side is not known",
            source="RFC 5681, 6298, 6582, 6675, 8985",
        ),
        Column(
            "new_data",
            pa.bool_(),
            "a tlp with data that had not been sent before: not a retransmission",
            source="RFC 8985, 7.3",
            required=True,
        ),
        Column(
            "spurious_rto",
            pa.bool_(),
            "of an rto: the server could tell by F-RTO that it came too soon, as Linux counts "
            "(TCPSpuriousRTOs); the first retransmission of a timeout stands for all; else null",
            source="RFC 5682",
        ),
        Column(
            "spurious_by",
            pa.string(),
            "of an rto: all that tells that it came too soon: frto (data sent once before it "
            "arrived after it), eifel (the echoed timestamp is older than the retransmission's), dsack "
            "(its data came twice), joined by +; null where nothing does",
            source="RFC 5682, 3522, 3708",
        ),
    ),
    sorted_by=("ts", "flow_id", "frame"),
)
