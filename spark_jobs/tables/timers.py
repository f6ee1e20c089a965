"""timers: the servers' retransmission timeouts over time."""

import pyarrow as pa

from schemas import TIMERS, TIMESTAMP
from spark_jobs.estimators.sender import timer
from spark_jobs.tables.bucket import Bucket
from spark_jobs.tables.rows import column, dictionary, table_of


def rows(bucket: Bucket) -> pa.Table:
    """The rows of schemas.TIMERS."""
    timers = bucket.sending.timers
    mine = timers[(bucket.connections.mine & bucket.replayed)[timers["connection"]]]
    return table_of(
        TIMERS,
        {
            "flow_id": pa.array(bucket.flow_ids[mine["connection"]]),
            "ts": column(mine, "ts").cast(TIMESTAMP),
            "rto": column(mine, "rto"),
            "backed_off": column(mine, "backed_off"),
            "rule": dictionary(mine["kind"], timer.TIMERS),
        },
    )
