"""stalls: silences that a connection's own timing does not explain."""

import numpy as np
import pyarrow as pa

from schemas import STALLS, TIMESTAMP
from spark_jobs.estimators.sender import sending, stalls
from spark_jobs.estimators.sequence import NONE
from spark_jobs.tables.rows import column, dictionary, table_of
from spark_jobs.tables.user_partition import UserPartition


def rows(partition: UserPartition) -> pa.Table:
    """The rows of schemas.STALLS."""
    found = partition.sending.stalls
    mine = found[(partition.connections.starts_in_window & partition.replayed)[found["connection"]]]
    probability = partition.access_losses.probability
    lost = stalls.lost_in(mine, partition.segments, partition.connections.first, probability)
    interrupted = stalls.interruptions(
        mine, lost, partition.segments, partition.connections, partition.packets
    )
    told = ~mine["brief"] | (interrupted == stalls.FLUSH)
    mine, lost, interrupted = mine[told], lost[told], interrupted[told]
    by_server = partition.segments.downlink[mine["ended_by"]]
    recovery = (mine["recovered"] - mine["start"]) / 1e6
    return table_of(
        STALLS,
        {
            "flow_id": pa.array(partition.flow_ids[mine["connection"]]),
            "start_ts": column(mine, "start").cast(TIMESTAMP),
            "end_ts": column(mine, "end").cast(TIMESTAMP),
            "class": dictionary(_classes(partition, mine, lost), stalls.CLASSES),
            "interruption": dictionary(
                interrupted, stalls.INTERRUPTIONS, interrupted != stalls.NO_INTERRUPTION
            ),
            "ended_by": dictionary(by_server, ("mobile", "server")),
            "segments": column(mine, "segments"),
            "lost": column(lost, "lost", lost["known"]),
            "lost_run": column(lost, "run", lost["known"]),
            "arrived_after": column(lost, "after", lost["known"] & (lost["lost"] > 0)),
            "recovery": pa.array(recovery, mask=mine["recovered"] == NONE),
            "slow_start": column(mine, "by_timeout"),
        },
    )


def _classes(partition: UserPartition, found: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """Places in stalls.CLASSES of STALL[S], with LOST[S]: where something was retransmitted though
    nothing was lost, ACKs were late or lost."""
    ended_by = found["ended_by"]
    missed, decided = partition.needed(ended_by)
    retransmitted = np.isin(found["kind"], stalls.BY_RETRANSMISSION)
    retransmitted &= partition.sending.cause[ended_by] != sending.NOT_AGAIN
    retransmitted &= decided & ~missed & (lost["lost"] == 0)
    return np.where(retransmitted, stalls.ACK_DELAY, found["kind"])
