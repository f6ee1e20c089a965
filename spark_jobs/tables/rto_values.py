"""rto_values: the retransmission timeouts of servers over time."""

import pyarrow as pa

from schemas import RTO_VALUES
from schemas.arrow_types import ARROW_TIMESTAMP
from spark_jobs.estimators.sender import rtt_sampling, timeouts, timer
from spark_jobs.tables.rows import column, dictionary, measured, table_of
from spark_jobs.tables.user_partition import UserPartition


def rows(partition: UserPartition) -> pa.Table:
    """Return the rows of schemas.RTO_VALUES."""
    rto_values = partition.sending.rto_values
    known = (partition.connections.starts_in_window & partition.sending_known)[
        rto_values["connection"]
    ]
    known_rtos = timeouts.in_order(rto_values[known])
    rtt_samples = partition.rtt_samples
    access_rtts = timeouts.in_order(rtt_samples[rtt_samples["side"] == rtt_sampling.ACCESS])
    return table_of(
        RTO_VALUES,
        {
            "flow_id": pa.array(partition.flow_ids[known_rtos["connection"]]),
            "ts": column(known_rtos, "ts").cast(ARROW_TIMESTAMP),
            "rto": column(known_rtos, "rto"),
            "duration": pa.array(
                timeouts.durations_us(known_rtos, partition.connections.end_ts) / 1e6
            ),
            "rtt": measured(timeouts.latest_rtt_us(known_rtos, access_rtts) / 1e6),
            "backed_off": column(known_rtos, "backed_off"),
            "rule": dictionary(known_rtos["rule"], timer.TIMER_RULES),
        },
    )
