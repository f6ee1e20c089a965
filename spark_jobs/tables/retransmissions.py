"""retransmissions: downlink retransmissions and their causes."""

import numpy as np
import pyarrow as pa

from schemas import RETRANSMISSIONS
from schemas.arrow_types import ARROW_TIMESTAMP
from spark_jobs.estimators.loss.missing_d_sacks import lacks_d_sack
from spark_jobs.estimators.loss.verdict import retransmissions
from spark_jobs.estimators.sender import acks, transmissions
from spark_jobs.tables.rows import dictionary, table_of
from spark_jobs.tables.user_partition import UserPartition

SIGNS = {acks.BY_FRTO: "frto", acks.BY_EIFEL: "eifel", acks.BY_DSACK: "dsack"}
SPURIOUS_BY = ["+".join(name for bit, name in SIGNS.items() if code & bit) for code in range(8)]
"""Names of the signs that an RTO expiry was spurious, by their bit mask."""


def rows(partition: UserPartition) -> pa.Table:
    """Return the rows of schemas.RETRANSMISSIONS."""
    packets, segments, access = partition.packets, partition.segments, partition.access_losses
    at = _retransmitted(partition)
    connection = partition.connection_of(at)
    sending_known = partition.sending_known[connection]
    access_known = (partition.losses_known & ~partition.split)[connection]
    cause = np.where(sending_known, partition.sending.cause[at], transmissions.ORIGINAL)
    spurious = partition.sending.spurious[at]
    original = access.original[at]
    original_seen = original >= 0
    fills_hole = np.isin(at, partition.internet_losses.losses["filler"])
    new_data = (cause == transmissions.LOSS_PROBE) & ~original_seen & ~fills_hole
    needed, decided = partition.retransmissions_needed(at)
    decided &= access_known & (needed | ~_lacks_dsack(partition, at))
    decided |= ~original_seen & partition.seen_for_losses[connection]
    has_old_data = (segments.payload_len[at] > 0) & ~new_data
    place = segments.place[at]
    by_timer = cause == transmissions.RTO_EXPIRY
    return table_of(
        RETRANSMISSIONS,
        {
            "flow_id": pa.array(partition.flow_ids[connection]),
            "capture": dictionary(packets.capture[place], partition.names.captures),
            "frame": pa.array(packets.frame[place]),
            "original_frame": pa.array(
                packets.frame[segments.place[original]], mask=~original_seen
            ),
            "ts": pa.array(segments.ts[at]).cast(ARROW_TIMESTAMP),
            "needed": pa.array(needed | ~original_seen, mask=~decided | ~has_old_data),
            "cause": dictionary(cause, transmissions.CAUSES, cause != transmissions.ORIGINAL),
            "new_data": pa.array(new_data),
            "spurious_rto": pa.array(spurious & acks.BY_FRTO > 0, mask=~by_timer),
            "spurious_by": dictionary(spurious, SPURIOUS_BY, by_timer & (spurious > 0)),
        },
    )


def _lacks_dsack(partition: UserPartition, at: np.ndarray) -> np.ndarray:
    """Return whether retransmissions lack a D-SACK though they probably arrived, bool[K].

    Only retransmissions to mobiles that send D-SACKs count.
    """
    base_rtt_us = partition.base_rtt_us[partition.connections.user]
    lacking = lacks_d_sack(partition.segments, partition.connections, base_rtt_us, at)
    return lacking & ~(partition.access_losses.probability[at] > 0.5)


def _retransmitted(partition: UserPartition) -> np.ndarray:
    """Return the retransmitted segments of the connections that get rows."""
    sending_known = np.repeat(partition.sending_known, np.diff(partition.connections.first))
    cause = np.where(sending_known, partition.sending.cause, transmissions.ORIGINAL)
    retransmitted = retransmissions(partition.segments, partition.access_losses, cause)
    filler = partition.internet_losses.losses["filler"]
    retransmitted[filler[filler >= 0]] = True
    at = np.flatnonzero(retransmitted)
    return at[partition.connections.starts_in_window[partition.connection_of(at)]]
