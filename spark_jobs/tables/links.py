"""links: users' access links, hour by hour."""

import numpy as np
import pyarrow as pa

from schemas import LINKS, TIMESTAMP
from spark_jobs.tables.rows import column, dictionary, measured, table_of
from spark_jobs.tables.user_partition import UserPartition


def rows(partition: UserPartition) -> pa.Table:
    """The rows of schemas.LINKS."""
    found = partition.links
    known = partition.links_known[found["user"]]
    return table_of(
        LINKS,
        {
            "user": dictionary(found["user"], partition.names.users),
            "hour": column(found, "hour").cast(TIMESTAMP),
            "rtt_samples": column(found, "rtt_samples"),
            "rtt_min": column(found, "rtt_min", known),
            "rtt_median": column(found, "rtt_median", known),
            "rtt_max": column(found, "rtt_max", known),
        }
        | {
            name: measured(np.where(known, found[name], np.nan))
            for name in ("rate", "queue_bytes", "queue_s", "lost_with_room")
        },
    )
