"""retransmissions: downlink packets retransmitted, and why."""

import numpy as np
import pyarrow as pa

from schemas import RETRANSMISSIONS, TIMESTAMP
from spark_jobs.estimators.loss.twice import unreported
from spark_jobs.estimators.loss.verdict import retransmissions
from spark_jobs.estimators.sender import hearing, sending
from spark_jobs.tables.rows import dictionary, table_of
from spark_jobs.tables.user_partition import UserPartition

SIGNS = {hearing.BY_FRTO: "frto", hearing.BY_EIFEL: "eifel", hearing.BY_DSACK: "dsack"}
SPURIOUS = ["+".join(name for bit, name in SIGNS.items() if code & bit) for code in range(8)]
"""What tells that a timeout came too soon, by its code."""


def rows(partition: UserPartition) -> pa.Table:
    """The rows of schemas.RETRANSMISSIONS."""
    packets, segments, access = partition.packets, partition.segments, partition.access_losses
    at = _sent_again(partition)
    of = partition.connection_of(at)
    replayed, access_known = partition.replayed[of], (partition.losses_known & ~partition.split)[of]
    cause = np.where(replayed, partition.sending.cause[at], sending.NOT_AGAIN)
    spurious = partition.sending.spurious[at]
    original = access.original[at]
    seen = original >= 0
    filler = np.isin(at, partition.internet_losses.losses["filler"])
    new = (cause == sending.LOSS_PROBE) & ~seen & ~filler
    needed, decided = partition.needed(at)
    decided &= access_known & (needed | ~_is_open(partition, at))
    decided |= ~seen & partition.complete[of]
    of_data = (segments.payload_len[at] > 0) & ~new
    place = segments.place[at]
    by_timer = cause == sending.BY_TIMEOUT
    return table_of(
        RETRANSMISSIONS,
        {
            "flow_id": pa.array(partition.flow_ids[of]),
            "capture": dictionary(packets.capture[place], partition.names.captures),
            "frame": pa.array(packets.frame[place]),
            "original_frame": pa.array(packets.frame[segments.place[original]], mask=~seen),
            "ts": pa.array(segments.ts[at]).cast(TIMESTAMP),
            "needed": pa.array(needed | ~seen, mask=~decided | ~of_data),
            "cause": dictionary(cause, sending.CAUSES, cause != sending.NOT_AGAIN),
            "new_data": pa.array(new),
            "spurious_rto": pa.array(spurious & hearing.BY_FRTO > 0, mask=~by_timer),
            "spurious_by": dictionary(spurious, SPURIOUS, by_timer & (spurious > 0)),
        },
    )


def _is_open(partition: UserPartition, at: np.ndarray) -> np.ndarray:
    """Whether retransmissions that arrived, it seems, have no D-SACK though their mobile sends them."""
    base_us = partition.base_us[partition.connections.user]
    open_ = unreported(partition.segments, partition.connections, base_us, at)
    return open_ & ~(partition.access_losses.probability[at] > 0.5)


def _sent_again(partition: UserPartition) -> np.ndarray:
    """The segments of connections that are mine that were retransmitted."""
    replayed = np.repeat(partition.replayed, np.diff(partition.connections.first))
    cause = np.where(replayed, partition.sending.cause, sending.NOT_AGAIN)
    again = retransmissions(partition.segments, partition.access_losses, cause)
    filler = partition.internet_losses.losses["filler"]
    again[filler[filler >= 0]] = True
    at = np.flatnonzero(again)
    return at[partition.connections.starts_in_window[partition.connection_of(at)]]
