"""links: the access links of users, hour by hour."""

import numpy as np
import pyarrow as pa

from schemas import LINKS
from schemas.arrow_types import ARROW_TIMESTAMP
from spark_jobs.estimators.loss.queue_kind import KIND_NAMES, UNKNOWN
from spark_jobs.tables.rows import column, dictionary, measured, table_of
from spark_jobs.tables.user_partition import UserPartition


def rows(partition: UserPartition) -> pa.Table:
    """Return the rows of schemas.LINKS."""
    user_links = partition.links
    known = partition.links_known[user_links["user"]]
    kinds = partition.queue_kinds[user_links["user"]]
    return table_of(
        LINKS,
        {
            "user": dictionary(user_links["user"], partition.names.users),
            "link": dictionary(user_links["user"], partition.names.links),
            "hour": column(user_links, "hour").cast(ARROW_TIMESTAMP),
            "rtt_samples": column(user_links, "rtt_samples"),
            "rtt_min": column(user_links, "rtt_min", known),
            "rtt_median": column(user_links, "rtt_median", known),
            "rtt_max": column(user_links, "rtt_max", known),
        }
        | {
            name: measured(np.where(known, user_links[name], np.nan))
            for name in ("rate", "queue_bytes", "queue_s", "lost_with_room")
        }
        | {"queue_kind": dictionary(kinds, KIND_NAMES, known & (kinds != UNKNOWN))},
    )
