"""channel_rates: periods in which a connection kept its user's link saturated."""

import pyarrow as pa

from schemas import CHANNEL_RATES
from schemas.arrow_types import ARROW_TIMESTAMP
from spark_jobs.estimators.channel_rate import Saturation, channel_rates
from spark_jobs.tables.rows import dictionary, table_of
from spark_jobs.tables.user_partition import UserPartition


def rows(partition: UserPartition) -> pa.Table:
    """Return the rows of schemas.CHANNEL_RATES."""
    connections = partition.connections
    periods = channel_rates(
        partition.segments,
        connections,
        partition.packets,
        partition.acks_in_order,
        Saturation(partition.settings.flight_size_bytes),
    )
    known = (partition.seen_for_replay & ~partition.split)[periods.connection]
    periods = type(periods)(*(column[known] for column in periods))
    return table_of(
        CHANNEL_RATES,
        {
            "flow_id": pa.array(partition.flow_ids[periods.connection]),
            "user": dictionary(connections.user[periods.connection], partition.names.users),
            "start_ts": pa.array(periods.start_ts).cast(ARROW_TIMESTAMP),
            "end_ts": pa.array(periods.end_ts).cast(ARROW_TIMESTAMP),
            "ip_bytes": pa.array(periods.ip_bytes),
            "rate": pa.array(periods.rate),
        },
    )
