"""Names that tables and columns had in earlier versions, as their files still have them.

Readers see today's names. A file of an earlier version keeps its folder and its columns until its
unit is made again.
"""

from collections.abc import Iterable

FORMER_TABLES = {
    "round_trips": "rtt_samples",
    "timers": "rto_values",
    "small_cells": "suppressed_groups",
    "resends_by_cause": "retransmissions_by_cause",
    "rated_transfers": "channel_rate_coverage",
}
"""Today's name of each table, by its former name."""

_PARTITION = {"bucket": "user_partition"}
_RTO_EXPIRIES = {
    f"{cause}_needless": f"{cause}_spurious"
    for cause in ("fast", "rto", "slow_start", "tlp", "unknown")
} | {
    "timeouts": "rto_expiries",
    "spurious_timeouts": "spurious_rto_expiries",
    "frto_timeouts": "frto_rto_expiries",
}
FORMER_COLUMNS: dict[str, dict[str, str]] = {
    "packets": _PARTITION,
    "application_log": _PARTITION,
    "accounting": _PARTITION,
    "leases": _PARTITION,
    "flows": {
        "resends": "retransmissions",
        "timeouts": "rto_expiries",
        "seen": "directions_seen",
        "setup_repeat": "setup_retransmission",
    },
    "rto_values": {"lasted": "duration"},
    "links": {"round_trips": "rtt_samples"},
    "ingest_log": {"copy_of": "duplicate_of"},
    "metrics": {"top": "numerator", "bottom": "denominator"},
    "fig05_setup_tree": {"setup_repeat": "setup_retransmission"},
    "rtt_by_flight": {"round_trips": "rtt_samples", "queueing_round_trips": "queueing_samples"},
    "stalls_by_class": {"timeout_stalls": "rto_stalls"},
    "retransmissions_by_cause": _RTO_EXPIRIES,
    "channel_rate_coverage": {
        "rated_flows": "flows_with_rate",
        "rated_ip_bytes": "ip_bytes_with_rate",
    },
    "suppressed_groups": {"cells": "groups", "left_out": "suppressed"},
}
"""Today's name of each renamed column, by table and former name."""


def table_of_folder(folder: str) -> str:
    """Return today's name of the table whose files lie in a folder of the warehouse."""
    return FORMER_TABLES.get(folder, folder)


def folders_of_table(table: str) -> list[str]:
    """Return the folders in which a table's files may lie."""
    return [table, *(former for former, now in FORMER_TABLES.items() if now == table)]


def renamed_columns(table: str, names: Iterable[str]) -> dict[str, str]:
    """Return today's names of the columns with former names among a file's columns."""
    former = FORMER_COLUMNS.get(table, {})
    return {name: former[name] for name in names if name in former}


def stored_names(table: str, names: Iterable[str]) -> list[str]:
    """Return the names that columns may have in files: today's, then the former ones."""
    wanted = list(names)
    former = FORMER_COLUMNS.get(table, {})
    return [*wanted, *(old for old, now in former.items() if now in wanted)]
