"""All tables: those of `schemas`, and the marts of the figures."""

from schemas import (
    ACCOUNTING,
    APPLICATION_LOG,
    DAILY_TABLES,
    INGEST_LOG,
    LEASES,
    PACKETS,
    PEAK_HOURS,
    QUALITY,
    STORED_TABLES,
    Table,
)
from spark_jobs.figures.marts import all_marts
from spark_jobs.figures.suppressed_groups.table import SUPPRESSED_GROUPS

MARTS = all_marts()
"""Marts of the figures, in the figures' order."""
SHOWN = (*MARTS, SUPPRESSED_GROUPS)
"""Tables whose days and networks the report shows."""
TABLES = {table.name: table for table in (*STORED_TABLES, *MARTS, SUPPRESSED_GROUPS)}
"""All tables by name."""
EXAMPLES = TABLES["examples"]
SINGLE_CONNECTIONS = (EXAMPLES, TABLES["worst_connections"])
RETENTION_GROUPS: dict[str, tuple[Table, ...]] = {
    "packets": (PACKETS, APPLICATION_LOG, ACCOUNTING, LEASES, *SINGLE_CONNECTIONS),
    "flows": DAILY_TABLES,
    "marts": (
        *(mart for mart in MARTS if mart not in SINGLE_CONNECTIONS),
        SUPPRESSED_GROUPS,
        PEAK_HOURS,
        QUALITY,
        INGEST_LOG,
    ),
}
"""Tables that are removed together, by the name of a group's retention in the networks file.

The marts of single connections belong to packets, because these are drawn from packets.
"""
