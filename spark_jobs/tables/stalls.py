"""stalls: silences that are longer than the timing of their connection explains."""

import numpy as np
import pyarrow as pa

from schemas import STALLS
from schemas.arrow_types import ARROW_TIMESTAMP
from spark_jobs.estimators.sender import stall_classes, transmissions
from spark_jobs.estimators.sequence import NONE
from spark_jobs.tables.rows import column, dictionary, table_of
from spark_jobs.tables.user_partition import UserPartition


def rows(partition: UserPartition) -> pa.Table:
    """Return the rows of schemas.STALLS."""
    silences = partition.sending.stalls
    known = partition.connections.starts_in_window & partition.sending_known
    silences = silences[known[silences["connection"]]]
    probability = partition.access_losses.probability
    lost = stall_classes.losses_in(
        silences, partition.segments, partition.connections.first, probability
    )
    interruption = stall_classes.interruptions(
        silences, lost, partition.segments, partition.connections, partition.packets
    )
    is_stall = ~silences["brief"] | (interruption == stall_classes.FLUSH)
    silences, lost, interruption = silences[is_stall], lost[is_stall], interruption[is_stall]
    by_server = partition.segments.downlink[silences["ended_by"]]
    recovery = (silences["recovered_at"] - silences["start"]) / 1e6
    return table_of(
        STALLS,
        {
            "flow_id": pa.array(partition.flow_ids[silences["connection"]]),
            "start_ts": column(silences, "start").cast(ARROW_TIMESTAMP),
            "end_ts": column(silences, "end").cast(ARROW_TIMESTAMP),
            "class": dictionary(_classes(partition, silences, lost), stall_classes.CLASSES),
            "interruption": dictionary(
                interruption,
                stall_classes.INTERRUPTIONS,
                interruption != stall_classes.NO_INTERRUPTION,
            ),
            "ended_by": dictionary(by_server, ("mobile", "server")),
            "segments": column(silences, "segments"),
            "lost": column(lost, "lost", lost["known"]),
            "lost_run": column(lost, "lost_run", lost["known"]),
            "arrived_after": column(lost, "arrived_after", lost["known"] & (lost["lost"] > 0)),
            "recovery": pa.array(recovery, mask=silences["recovered_at"] == NONE),
            "slow_start": column(silences, "ended_by_rto"),
        },
    )


def _classes(partition: UserPartition, silences: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """Return the indices into stall_classes.CLASSES of STALL[S], with STALL_LOSSES[S].

    If a retransmission ended a stall though nothing was lost, ACKs were late or lost.
    """
    ended_by = silences["ended_by"]
    needed, decided = partition.retransmissions_needed(ended_by)
    ack_delay = np.isin(silences["stall_class"], stall_classes.BY_RETRANSMISSION)
    ack_delay &= partition.sending.cause[ended_by] != transmissions.ORIGINAL
    ack_delay &= decided & ~needed & (lost["lost"] == 0)
    return np.where(ack_delay, stall_classes.ACK_DELAY, silences["stall_class"])
