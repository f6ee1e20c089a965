"""timers: the servers' retransmission timeouts over time."""

import pyarrow as pa

from schemas import TIMERS, TIMESTAMP
from spark_jobs.estimators.sender import samples, timeouts, timer
from spark_jobs.tables.bucket import Bucket
from spark_jobs.tables.rows import column, dictionary, measured, table_of


def rows(bucket: Bucket) -> pa.Table:
    """The rows of schemas.TIMERS."""
    timers = bucket.sending.timers
    told = (bucket.connections.mine & bucket.replayed)[timers["connection"]]
    mine = timeouts.in_order(timers[told])
    trips = bucket.round_trips
    trips = timeouts.in_order(trips[trips["side"] == samples.ACCESS])
    return table_of(
        TIMERS,
        {
            "flow_id": pa.array(bucket.flow_ids[mine["connection"]]),
            "ts": column(mine, "ts").cast(TIMESTAMP),
            "rto": column(mine, "rto"),
            "lasted": pa.array(timeouts.lasted_us(mine, bucket.connections.end_ts) / 1e6),
            "rtt": measured(timeouts.latest_us(mine, trips) / 1e6),
            "backed_off": column(mine, "backed_off"),
            "rule": dictionary(mine["kind"], timer.TIMERS),
        },
    )
