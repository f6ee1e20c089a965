"""rtt_samples: round trips through transfers, on either side of Gi."""

import pyarrow as pa

from schemas import RTT_SAMPLES, TIMESTAMP
from spark_jobs.estimators.sender import rtt_sampling
from spark_jobs.tables.rows import column, dictionary, table_of
from spark_jobs.tables.user_partition import UserPartition


def rows(partition: UserPartition) -> pa.Table:
    """The rows of schemas.RTT_SAMPLES."""
    mine = partition.rtt_samples
    return table_of(
        RTT_SAMPLES,
        {
            "flow_id": pa.array(partition.flow_ids[mine["connection"]]),
            "ts": column(mine, "ts").cast(TIMESTAMP),
            "side": dictionary(mine["side"], rtt_sampling.SIDES),
            "rtt": pa.array(mine["rtt"] / 1e6),
            "flight": column(mine, "flight", mine["side"] == rtt_sampling.ACCESS),
            "delayed": column(mine, "delayed"),
        },
    )
