"""links: users' access links, hour by hour."""

import pyarrow as pa

from schemas import LINKS, TIMESTAMP
from spark_jobs.tables.bucket import Bucket
from spark_jobs.tables.rows import column, dictionary, measured, table_of


def rows(bucket: Bucket) -> pa.Table:
    """The rows of schemas.LINKS."""
    found = bucket.links
    return table_of(
        LINKS,
        {
            "user": dictionary(found["user"], bucket.names.users),
            "hour": column(found, "hour").cast(TIMESTAMP),
            "round_trips": column(found, "round_trips"),
            "rtt_min": column(found, "base"),
            "rtt_median": column(found, "median"),
            "rtt_max": column(found, "longest"),
            "rate": measured(found["rate"]),
            "queue_bytes": measured(found["queue_bytes"]),
            "queue_s": measured(found["queue_s"]),
            "lost_with_room": measured(found["lost_with_room"]),
        },
    )
