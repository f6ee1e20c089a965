"""round_trips: round trips through transfers, on either side of Gi."""

import pyarrow as pa

from schemas import ROUND_TRIPS, TIMESTAMP
from spark_jobs.estimators.sender import samples
from spark_jobs.tables.bucket import Bucket
from spark_jobs.tables.rows import column, dictionary, table_of


def rows(bucket: Bucket) -> pa.Table:
    """The rows of schemas.ROUND_TRIPS."""
    mine = bucket.round_trips
    return table_of(
        ROUND_TRIPS,
        {
            "flow_id": pa.array(bucket.flow_ids[mine["connection"]]),
            "ts": column(mine, "ts").cast(TIMESTAMP),
            "side": dictionary(mine["side"], samples.SIDES),
            "rtt": pa.array(mine["rtt"] / 1e6),
            "flight": column(mine, "flight", mine["side"] == samples.ACCESS),
            "delayed": column(mine, "delayed"),
        },
    )
