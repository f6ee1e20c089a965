"""links: users' access links, hour by hour."""

import numpy as np
import pyarrow as pa

from schemas import LINKS, TIMESTAMP
from spark_jobs.tables.bucket import Bucket
from spark_jobs.tables.rows import column, dictionary, measured, table_of


def rows(bucket: Bucket) -> pa.Table:
    """The rows of schemas.LINKS."""
    found = bucket.links
    known = bucket.links_known[found["user"]]
    return table_of(
        LINKS,
        {
            "user": dictionary(found["user"], bucket.names.users),
            "hour": column(found, "hour").cast(TIMESTAMP),
            "round_trips": column(found, "round_trips"),
            "rtt_min": column(found, "base", known),
            "rtt_median": column(found, "median", known),
            "rtt_max": column(found, "longest", known),
        }
        | {
            name: measured(np.where(known, found[name], np.nan))
            for name in ("rate", "queue_bytes", "queue_s", "lost_with_room")
        },
    )
