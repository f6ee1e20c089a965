"""stalls: silences that are longer than the timing of their connection explains."""

import numpy as np
import pyarrow as pa

from schemas import STALLS, TIMESTAMP
from spark_jobs.estimators.sender import sending, stalls
from spark_jobs.estimators.sequence import NONE
from spark_jobs.tables.rows import column, dictionary, table_of
from spark_jobs.tables.user_partition import UserPartition


def rows(partition: UserPartition) -> pa.Table:
    """Return the rows of schemas.STALLS."""
    silences = partition.sending.stalls
    known = partition.connections.mine & partition.sending_known
    silences = silences[known[silences["connection"]]]
    probability = partition.access_losses.probability
    lost = stalls.lost_in(silences, partition.segments, partition.connections.first, probability)
    interruption = stalls.interruptions(
        silences, lost, partition.segments, partition.connections, partition.packets
    )
    is_stall = ~silences["brief"] | (interruption == stalls.FLUSH)
    silences, lost, interruption = silences[is_stall], lost[is_stall], interruption[is_stall]
    by_server = partition.segments.downlink[silences["ended_by"]]
    recovery = (silences["recovered"] - silences["start"]) / 1e6
    return table_of(
        STALLS,
        {
            "flow_id": pa.array(partition.flow_ids[silences["connection"]]),
            "start_ts": column(silences, "start").cast(TIMESTAMP),
            "end_ts": column(silences, "end").cast(TIMESTAMP),
            "class": dictionary(_classes(partition, silences, lost), stalls.CLASSES),
            "interruption": dictionary(
                interruption, stalls.INTERRUPTIONS, interruption != stalls.NO_INTERRUPTION
            ),
            "ended_by": dictionary(by_server, ("mobile", "server")),
            "segments": column(silences, "segments"),
            "lost": column(lost, "lost", lost["known"]),
            "lost_run": column(lost, "run", lost["known"]),
            "arrived_after": column(lost, "after", lost["known"] & (lost["lost"] > 0)),
            "recovery": pa.array(recovery, mask=silences["recovered"] == NONE),
            "slow_start": column(silences, "by_timeout"),
        },
    )


def _classes(partition: UserPartition, silences: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """Return the indices into stalls.CLASSES of STALL[S], with LOST[S].

    If a retransmission ended a stall though nothing was lost, ACKs were late or lost.
    """
    ended_by = silences["ended_by"]
    needed, decided = partition.retransmissions_needed(ended_by)
    ack_delay = np.isin(silences["kind"], stalls.BY_RETRANSMISSION)
    ack_delay &= partition.sending.cause[ended_by] != sending.NOT_AGAIN
    ack_delay &= decided & ~needed & (lost["lost"] == 0)
    return np.where(ack_delay, stalls.ACK_DELAY, silences["kind"])
