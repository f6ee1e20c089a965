"""The tables: each column once, with its type, unit, meaning and source.

Files, Spark's schemas, the SQL views and the data dictionary derive from these.
"""

from schemas.accounting import ACCOUNTING
from schemas.application_log import APPLICATION_LOG
from schemas.channel_rates import CHANNEL_RATES
from schemas.flows import FLOWS
from schemas.ingest_log import INCOMPLETE_REASONS, INGEST_LOG, SKIP_REASONS, UNREAD_REASONS
from schemas.leases import LEASES
from schemas.links import LINKS
from schemas.losses import LOSSES
from schemas.networks import NETWORKS
from schemas.packets import PACKETS, TUNNELS
from schemas.pages import PAGES
from schemas.peak_hours import PEAK_HOURS
from schemas.quality import MAX_OPTIONS_CUT_SHARE, QUALITY
from schemas.quic_flows import QUIC_FLOWS, QUIC_SETUP_CLASSES, SPINS
from schemas.retransmissions import RETRANSMISSIONS
from schemas.rto_values import RTO_VALUES
from schemas.rtt_samples import RTT_SAMPLES
from schemas.sessions import SESSIONS
from schemas.stalls import STALLS
from schemas.table import CATALOG_NAME, PARTITION_COLUMNS, TIMESTAMP, Column, Table

FROM_ZEEK_LOGS = (SESSIONS, APPLICATION_LOG, ACCOUNTING, LEASES)
"""Tables that are filled from Zeek's logs, and empty without them."""

STORED_TABLES = (
    PACKETS,
    FLOWS,
    QUIC_FLOWS,
    CHANNEL_RATES,
    LOSSES,
    RETRANSMISSIONS,
    RTT_SAMPLES,
    RTO_VALUES,
    STALLS,
    LINKS,
    PAGES,
    SESSIONS,
    APPLICATION_LOG,
    ACCOUNTING,
    LEASES,
    INGEST_LOG,
    NETWORKS,
    PEAK_HOURS,
    QUALITY,
)
"""All tables but the marts, which are in `spark_jobs/figures/tables.py`."""

DAILY_TABLES = (
    FLOWS,
    CHANNEL_RATES,
    LINKS,
    LOSSES,
    PAGES,
    QUIC_FLOWS,
    RETRANSMISSIONS,
    RTT_SAMPLES,
    SESSIONS,
    STALLS,
    RTO_VALUES,
)
"""Tables that are made from a day's packets."""
__all__ = [
    "ACCOUNTING",
    "APPLICATION_LOG",
    "CATALOG_NAME",
    "CHANNEL_RATES",
    "DAILY_TABLES",
    "FLOWS",
    "FROM_ZEEK_LOGS",
    "INCOMPLETE_REASONS",
    "INGEST_LOG",
    "LEASES",
    "LINKS",
    "LOSSES",
    "MAX_OPTIONS_CUT_SHARE",
    "NETWORKS",
    "PACKETS",
    "PAGES",
    "PARTITION_COLUMNS",
    "PEAK_HOURS",
    "QUALITY",
    "QUIC_FLOWS",
    "QUIC_SETUP_CLASSES",
    "RETRANSMISSIONS",
    "RTO_VALUES",
    "RTT_SAMPLES",
    "SESSIONS",
    "SKIP_REASONS",
    "SPINS",
    "STALLS",
    "STORED_TABLES",
    "TIMESTAMP",
    "TUNNELS",
    "UNREAD_REASONS",
    "Column",
    "Table",
]
