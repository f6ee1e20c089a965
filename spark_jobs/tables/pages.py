"""pages: bursts of connections of one user."""

import numpy as np
import pyarrow as pa

from schemas import PAGES
from schemas.arrow_types import ARROW_TIMESTAMP
from spark_jobs.estimators.links import rates_at
from spark_jobs.estimators.pages import pages
from spark_jobs.tables.rows import column, dictionary, measured, table_of
from spark_jobs.tables.user_partition import UserPartition


def rows(partition: UserPartition) -> pa.Table:
    """Return the rows of schemas.PAGES."""
    bursts = pages(partition.activities, partition.seen_for_losses, partition.page_rtt_us)
    seconds = (bursts["end"] - bursts["start"]) / 1e6
    known = (seconds > 0) & bursts["complete"] & partition.links_known[bursts["user"]]
    rate = 8 * bursts["ip_bytes"] / np.where(known, seconds, np.nan)
    return table_of(
        PAGES,
        {
            "user": dictionary(bursts["user"], partition.names.users),
            "start_ts": column(bursts, "start").cast(ARROW_TIMESTAMP),
            "end_ts": column(bursts, "end").cast(ARROW_TIMESTAMP),
            "connections": column(bursts, "connections"),
            "quic_connections": column(bursts, "quic_connections"),
            "parallel": column(bursts, "parallel"),
            "ip_bytes": column(bursts, "ip_bytes"),
            "payload_bytes": column(bursts, "payload_bytes"),
            "rate_share": measured(
                rate / rates_at(partition.links, bursts["user"], bursts["start"])
            ),
            **partition.labels.at(bursts["user"], bursts["start"]),
        },
    )
