"""stalls: silences that are longer than the timing of their connection explains."""

from schemas.table import DELTA, TIMESTAMP, Column, Table

STALLS = Table(
    name="stalls",
    row="one silence of a connection that is longer than two smoothed RTTs or than the RTO, "
    "whichever is less, or that is a flush (see interruption). Its date is the date on "
    "which the connection starts",
    columns=(
        Column("flow_id", "int64", "the connection, as in flows", required=True),
        Column(
            "start_ts",
            TIMESTAMP,
            "time of the last packet before the stall, by the server's clock",
            required=True,
            encoding=DELTA,
        ),
        Column(
            "end_ts",
            TIMESTAMP,
            "time of the packet that ends the stall",
            required=True,
            encoding=DELTA,
        ),
        Column(
            "class",
            "string",
            "why: data_unavailable (the server had nothing to send), client_idle (all data was "
            "acknowledged and the mobile had not requested more), zero_window (the window was "
            "closed), packet_delay (an ACK came late). If a retransmission ended the stall: "
            "double_retransmission (of a segment that was retransmitted before), "
            "tail_retransmission (too few segments followed for duplicate ACKs), small_window "
            "(too few segments were in flight for duplicate ACKs), continuous_loss (enough "
            "segments were in flight, and no ACK came) or ack_delay (nothing was lost: ACKs were "
            "late or lost)",
            source="Zhou et al., CoNEXT 2015",
            required=True,
        ),
        Column(
            "interruption",
            "string",
            "effect of the mobile network on the link, if one shows. Nothing came from the mobile "
            "during the stall, and either the data in flight arrived late (pause: a reselection "
            "or a handover), or its first part was lost and the rest arrived (flush: a "
            "preemption, or a reselection that forwards nothing). Null if no effect shows",
            source="Wennström, Brunstrom and Rendón, GPRS preempted by calls",
        ),
        Column(
            "ended_by",
            "string",
            "end that ended the stall: mobile (by an ACK or a request) or server (by a "
            "retransmission or new data)",
            source="Wennström, Brunstrom and Rendón, GPRS preempted by calls",
            required=True,
        ),
        Column("segments", "int64", "segments in flight at its start", "segments", required=True),
        Column(
            "lost",
            "int64",
            "segments of these that were lost on the access side. Null if not known",
            "segments",
            "INFOCOM V",
        ),
        Column(
            "lost_run",
            "int64",
            "maximum number of consecutive segments among the lost ones. Null if not known",
            "segments",
        ),
        Column(
            "arrived_after",
            "int64",
            "segments sent after that run that arrived. Some, if a buffer was flushed: the "
            "segments that it would send next are lost. None, if a buffer was full: the segments "
            "that arrive at it are lost. Null if no segment was lost, or if that is not known",
            "segments",
        ),
        Column(
            "recovery",
            "double",
            "time from the start of the stall until all data in flight then is acknowledged. Null "
            "if it never is",
            "s",
        ),
        Column(
            "slow_start",
            "bool",
            "whether an RTO expiry ended the stall, so that the server is in slow start",
            source="RFC 5681, 3.1",
            required=True,
        ),
    ),
)
