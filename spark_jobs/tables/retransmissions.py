"""retransmissions: downlink data packets sent again."""

import numpy as np
import pyarrow as pa

from schemas import RETRANSMISSIONS, TIMESTAMP
from spark_jobs.estimators.loss.verdict import UNDECIDED
from spark_jobs.tables.bucket import Bucket
from spark_jobs.tables.rows import dictionary, table_of


def rows(bucket: Bucket) -> pa.Table:
    """The rows of schemas.RETRANSMISSIONS."""
    packets, segments, access = bucket.packets, bucket.segments, bucket.access_losses
    again = (access.original >= 0) & (segments.payload_len > 0)
    filler = bucket.internet_losses.losses["filler"]
    again[filler[filler >= 0]] = True
    at = np.flatnonzero(again)
    at = at[bucket.connections.mine[bucket.connection_of(at)]]
    original = access.original[at]
    seen = original >= 0
    lost = access.probability[original]
    decided = ~np.isnan(lost) & (access.evidence[original] != UNDECIDED)
    place = segments.place[at]
    return table_of(
        RETRANSMISSIONS,
        {
            "flow_id": pa.array(bucket.flow_ids[bucket.connection_of(at)]),
            "capture": dictionary(packets.capture[place], bucket.names.captures),
            "frame": pa.array(packets.frame[place]),
            "original_frame": pa.array(packets.frame[segments.place[original]], mask=~seen),
            "ts": pa.array(segments.ts[at]).cast(TIMESTAMP),
            "needed": pa.array((lost > 0.5) | ~seen, mask=seen & ~decided),
        },
    )
