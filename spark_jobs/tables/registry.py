"""The tables that are made from a user partition, and the functions that make their rows."""

from collections.abc import Callable

import pyarrow as pa

from schemas import (
    CHANNEL_RATES,
    FLOWS,
    LINKS,
    LOSSES,
    PAGES,
    QUIC_FLOWS,
    RETRANSMISSIONS,
    RTO_VALUES,
    RTT_SAMPLES,
    SESSIONS,
    STALLS,
    Table,
)
from spark_jobs.tables import (
    channel_rates,
    flows,
    links,
    losses,
    pages,
    quic_flows,
    retransmissions,
    rto_values,
    rtt_samples,
    sessions,
    stalls,
)
from spark_jobs.tables.user_partition import UserPartition

ROWS: dict[Table, Callable[[UserPartition], pa.Table]] = {
    CHANNEL_RATES: channel_rates.rows,
    FLOWS: flows.rows,
    LINKS: links.rows,
    LOSSES: losses.rows,
    PAGES: pages.rows,
    QUIC_FLOWS: quic_flows.rows,
    RETRANSMISSIONS: retransmissions.rows,
    RTT_SAMPLES: rtt_samples.rows,
    SESSIONS: sessions.rows,
    STALLS: stalls.rows,
    RTO_VALUES: rto_values.rows,
}
"""The function that makes the rows of each table from a user partition."""
