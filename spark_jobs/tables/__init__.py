"""What the estimators say, as the rows of tables: one module a table."""

from collections.abc import Callable

import pyarrow as pa

from schemas import (
    CHANNEL_RATES,
    FLOWS,
    LINKS,
    LOSSES,
    PAGES,
    RETRANSMISSIONS,
    ROUND_TRIPS,
    SESSIONS,
    STALLS,
    TIMERS,
    Table,
)
from spark_jobs.tables import (
    channel_rates,
    flows,
    links,
    losses,
    pages,
    retransmissions,
    round_trips,
    sessions,
    stalls,
    timers,
)
from spark_jobs.tables.bucket import Bucket

ROWS: dict[Table, Callable[[Bucket], pa.Table]] = {
    CHANNEL_RATES: channel_rates.rows,
    FLOWS: flows.rows,
    LINKS: links.rows,
    LOSSES: losses.rows,
    PAGES: pages.rows,
    RETRANSMISSIONS: retransmissions.rows,
    ROUND_TRIPS: round_trips.rows,
    SESSIONS: sessions.rows,
    STALLS: stalls.rows,
    TIMERS: timers.rows,
}
"""What is made of a bucket."""
