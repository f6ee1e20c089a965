"""rtt_samples: RTT samples of transfers, on both sides of Gi."""

import pyarrow as pa

from schemas import RTT_SAMPLES
from schemas.arrow_types import ARROW_TIMESTAMP
from spark_jobs.estimators.sender import rtt_sampling
from spark_jobs.tables.rows import column, dictionary, table_of
from spark_jobs.tables.user_partition import UserPartition


def rows(partition: UserPartition) -> pa.Table:
    """Return the rows of schemas.RTT_SAMPLES."""
    known_samples = partition.rtt_samples
    return table_of(
        RTT_SAMPLES,
        {
            "flow_id": pa.array(partition.flow_ids[known_samples["connection"]]),
            "ts": column(known_samples, "ts").cast(ARROW_TIMESTAMP),
            "side": dictionary(known_samples["side"], rtt_sampling.SIDES),
            "rtt": pa.array(known_samples["rtt"] / 1e6),
            "flight": column(known_samples, "flight", known_samples["side"] == rtt_sampling.ACCESS),
            "delayed": column(known_samples, "delayed"),
        },
    )
