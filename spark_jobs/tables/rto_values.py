"""rto_values: the servers' retransmission timeouts over time."""

import pyarrow as pa

from schemas import RTO_VALUES, TIMESTAMP
from spark_jobs.estimators.sender import samples, timeouts, timer
from spark_jobs.tables.rows import column, dictionary, measured, table_of
from spark_jobs.tables.user_partition import UserPartition


def rows(partition: UserPartition) -> pa.Table:
    """The rows of schemas.RTO_VALUES."""
    rto_values = partition.sending.rto_values
    told = (partition.connections.starts_in_window & partition.replayed)[rto_values["connection"]]
    mine = timeouts.in_order(rto_values[told])
    trips = partition.rtt_samples
    trips = timeouts.in_order(trips[trips["side"] == samples.ACCESS])
    return table_of(
        RTO_VALUES,
        {
            "flow_id": pa.array(partition.flow_ids[mine["connection"]]),
            "ts": column(mine, "ts").cast(TIMESTAMP),
            "rto": column(mine, "rto"),
            "duration": pa.array(timeouts.lasted_us(mine, partition.connections.end_ts) / 1e6),
            "rtt": measured(timeouts.latest_us(mine, trips) / 1e6),
            "backed_off": column(mine, "backed_off"),
            "rule": dictionary(mine["kind"], timer.TIMER_RULES),
        },
    )
