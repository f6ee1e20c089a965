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
from schemas.marts import MARTS, SUPPRESSED_GROUPS
from schemas.networks import NETWORKS
from schemas.packets import PACKETS, TUNNELS
from schemas.pages import PAGES
from schemas.quality import MAX_OPTIONS_CUT_SHARE, QUALITY
from schemas.retransmissions import RETRANSMISSIONS
from schemas.rto_values import RTO_VALUES
from schemas.rtt_samples import RTT_SAMPLES
from schemas.sessions import SESSIONS
from schemas.stalls import STALLS
from schemas.table import CATALOG_NAME, PARTITION_COLUMNS, TIMESTAMP, Column, Table

FROM_ZEEK_LOGS = (SESSIONS, APPLICATION_LOG, ACCOUNTING, LEASES)
"""Tables that are filled from Zeek's logs, and empty without them."""

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        PACKETS,
        FLOWS,
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
        QUALITY,
        *MARTS,
        SUPPRESSED_GROUPS,
    )
}

DAILY_TABLES = (
    FLOWS,
    CHANNEL_RATES,
    LINKS,
    LOSSES,
    PAGES,
    RETRANSMISSIONS,
    RTT_SAMPLES,
    SESSIONS,
    STALLS,
    RTO_VALUES,
)
"""Tables that are made from a day's packets."""
EXAMPLES = TABLES["examples"]
RETENTION_GROUPS: dict[str, tuple[Table, ...]] = {
    "packets": (PACKETS, APPLICATION_LOG, ACCOUNTING, LEASES, EXAMPLES),
    "flows": DAILY_TABLES,
    "marts": (
        *(mart for mart in MARTS if mart is not EXAMPLES),
        SUPPRESSED_GROUPS,
        QUALITY,
        INGEST_LOG,
    ),
}
"""Tables that are removed together, by the name of the first: retention is set for each group.

Examples belong to packets, because they are drawn from packets.
"""

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
    "MARTS",
    "MAX_OPTIONS_CUT_SHARE",
    "NETWORKS",
    "PACKETS",
    "PAGES",
    "PARTITION_COLUMNS",
    "QUALITY",
    "RETENTION_GROUPS",
    "RETRANSMISSIONS",
    "RTO_VALUES",
    "RTT_SAMPLES",
    "SESSIONS",
    "SKIP_REASONS",
    "STALLS",
    "SUPPRESSED_GROUPS",
    "TABLES",
    "TIMESTAMP",
    "TUNNELS",
    "UNREAD_REASONS",
    "Column",
    "Table",
]
