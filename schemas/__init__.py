"""The tables: every column once, with type, unit, meaning and source.

Arrow files, Spark, the SQL views and the data dictionary derive from these.
"""

from schemas.flows import FLOWS
from schemas.ingest_log import INGEST_LOG, SKIP_REASONS
from schemas.marts import MARTS
from schemas.networks import NETWORKS
from schemas.packets import PACKETS
from schemas.table import PARTITION_COLUMNS, TIMESTAMP, Column, Table

TABLES: dict[str, Table] = {
    table.name: table for table in (PACKETS, FLOWS, INGEST_LOG, NETWORKS, *MARTS)
}

__all__ = [
    "FLOWS",
    "INGEST_LOG",
    "MARTS",
    "NETWORKS",
    "PACKETS",
    "PARTITION_COLUMNS",
    "SKIP_REASONS",
    "TABLES",
    "TIMESTAMP",
    "Column",
    "Table",
]
