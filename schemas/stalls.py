"""stalls: silences that a connection's own timing does not explain."""

import pyarrow as pa

from schemas.table import DELTA, TIMESTAMP, Column, Table

STALLS = Table(
    name="stalls",
    row="one silence of a connection that is longer than two smoothed round trips or than the "
    "timeout, whichever is less, or that is a flush (see interruption), on the date on which the "
    "connection starts",
    columns=(
        Column("flow_id", pa.int64(), "the connection, as in flows", required=True),
        Column(
            "start_ts",
            TIMESTAMP,
            "the last packet before it, by the server's clock",
            required=True,
            encoding=DELTA,
        ),
        Column("end_ts", TIMESTAMP, "the packet that ends it", required=True, encoding=DELTA),
        Column(
            "class",
            pa.string(),
            "why: data_unavailable (the server had nothing to send), client_idle (all was "
            "acknowledged and the mobile had not asked for more), zero_window, packet_delay (an "
            "ACK came after all); or, ended by a retransmission: double_retransmission (of a segment retransmitted "
            "before), tail_retransmission (too few segments had followed for duplicate ACKs to tell), "
            "small_window (too few were in flight for that), continuous_loss (enough were, and "
            "nothing was heard of them), ack_delay (nothing was lost: ACKs were late or lost)",
            source="Zhou et al., CoNEXT 2015",
            required=True,
        ),
        Column(
            "interruption",
            pa.string(),
            "what the mobile network did to the link, as far as it shows: nothing at all came from "
            "the mobile meanwhile, and what was in flight came late (pause: a reselection or a "
            "handover) or its head was lost and the rest came (flush: a preemption, or a "
            "reselection that forwards nothing); null where it shows nothing",
            source="Wennström, Brunstrom and Rendón, GPRS preempted by calls",
        ),
        Column(
            "ended_by",
            pa.string(),
            "who ended it: mobile (an ACK or a request) or server (a retransmission or new data)",
            source="Wennström, Brunstrom and Rendón, GPRS preempted by calls",
            required=True,
        ),
        Column(
            "segments", pa.int64(), "segments in flight when it began", "segments", required=True
        ),
        Column("lost", pa.int64(), "of these, lost on the access side", "segments", "INFOCOM V"),
        Column(
            "lost_run",
            pa.int64(),
            "of these, the most in a row",
            "segments",
        ),
        Column(
            "arrived_after",
            pa.int64(),
            "of the segments sent after that run, those that arrived: some if a buffer was "
            "flushed, which loses what it would send next; none if it was full, which loses what "
            "comes",
            "segments",
        ),
        Column(
            "recovery",
            pa.float64(),
            "from its beginning until all that was in flight is acknowledged; null if it never is",
            "s",
        ),
        Column(
            "slow_start",
            pa.bool_(),
            "a timeout ended it, so that the server starts slowly",
            source="RFC 5681, 3.1",
            required=True,
        ),
    ),
)
