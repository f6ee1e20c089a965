"""pages: users' bursts of connections."""

import numpy as np
import pyarrow as pa

from schemas import PAGES, TIMESTAMP
from spark_jobs.estimators.links import rates_at
from spark_jobs.estimators.pages import pages
from spark_jobs.tables.rows import column, dictionary, measured, table_of
from spark_jobs.tables.user_partition import UserPartition


def rows(partition: UserPartition) -> pa.Table:
    """The rows of schemas.PAGES."""
    found = pages(partition.activities, partition.complete, partition.base_us)
    seconds = (found["end"] - found["start"]) / 1e6
    told = (seconds > 0) & found["complete"] & partition.links_known[found["user"]]
    rate = 8 * found["ip_bytes"] / np.where(told, seconds, np.nan)
    return table_of(
        PAGES,
        {
            "user": dictionary(found["user"], partition.names.users),
            "start_ts": column(found, "start").cast(TIMESTAMP),
            "end_ts": column(found, "end").cast(TIMESTAMP),
            "connections": column(found, "connections"),
            "parallel": column(found, "parallel"),
            "ip_bytes": column(found, "ip_bytes"),
            "payload_bytes": column(found, "payload_bytes"),
            "rate_share": measured(rate / rates_at(partition.links, found["user"], found["start"])),
        },
    )
