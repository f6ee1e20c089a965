"""The tables and figures as small aggregates: one Spark SQL file each, named for it."""

from pathlib import Path

SQL = Path(__file__).parent
SHARED = ("places", "connections", "rate_periods", "measures")
"""What several marts read; a later one may read an earlier one."""
