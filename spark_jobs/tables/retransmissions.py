"""retransmissions: downlink packets sent again, and why."""

import numpy as np
import pyarrow as pa

from schemas import RETRANSMISSIONS, TIMESTAMP
from spark_jobs.estimators.loss.twice import unreported
from spark_jobs.estimators.loss.verdict import resends
from spark_jobs.estimators.sender import hearing, sending
from spark_jobs.tables.bucket import Bucket
from spark_jobs.tables.rows import dictionary, table_of

SIGNS = {hearing.BY_FRTO: "frto", hearing.BY_EIFEL: "eifel", hearing.BY_DSACK: "dsack"}
SPURIOUS = ["+".join(name for bit, name in SIGNS.items() if code & bit) for code in range(8)]
"""What tells that a timeout came too soon, by its code."""


def rows(bucket: Bucket) -> pa.Table:
    """The rows of schemas.RETRANSMISSIONS."""
    packets, segments, access = bucket.packets, bucket.segments, bucket.access_losses
    at = _sent_again(bucket)
    of = bucket.connection_of(at)
    replayed, access_known = bucket.replayed[of], (bucket.losses_known & ~bucket.split)[of]
    cause = np.where(replayed, bucket.sending.cause[at], sending.NOT_AGAIN)
    spurious = bucket.sending.spurious[at]
    original = access.original[at]
    seen = original >= 0
    filler = np.isin(at, bucket.internet_losses.losses["filler"])
    new = (cause == sending.LOSS_PROBE) & ~seen & ~filler
    needed, decided = bucket.needed(at)
    decided &= access_known & (needed | ~_is_open(bucket, at))
    decided |= ~seen & bucket.complete[of]
    of_data = (segments.payload_len[at] > 0) & ~new
    place = segments.place[at]
    by_timer = cause == sending.BY_TIMEOUT
    return table_of(
        RETRANSMISSIONS,
        {
            "flow_id": pa.array(bucket.flow_ids[of]),
            "capture": dictionary(packets.capture[place], bucket.names.captures),
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


def _is_open(bucket: Bucket, at: np.ndarray) -> np.ndarray:
    """Whether resends that arrived, it seems, have no D-SACK though their mobile sends them."""
    base_us = bucket.base_us[bucket.connections.user]
    open_ = unreported(bucket.segments, bucket.connections, base_us, at)
    return open_ & ~(bucket.access_losses.probability[at] > 0.5)


def _sent_again(bucket: Bucket) -> np.ndarray:
    """The segments of connections that are mine that were sent again."""
    replayed = np.repeat(bucket.replayed, np.diff(bucket.connections.first))
    cause = np.where(replayed, bucket.sending.cause, sending.NOT_AGAIN)
    again = resends(bucket.segments, bucket.access_losses, cause)
    filler = bucket.internet_losses.losses["filler"]
    again[filler[filler >= 0]] = True
    at = np.flatnonzero(again)
    return at[bucket.connections.mine[bucket.connection_of(at)]]
