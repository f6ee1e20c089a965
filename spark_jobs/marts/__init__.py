"""The tables and figures as small aggregates: one SQL file each, named for it, for Spark and DuckDB
alike."""

from pathlib import Path

SQL = Path(__file__).parent
SHARED = ("places", "connections", "rate_periods", "measures")
"""What marts read beside the tables; a later one may read an earlier one."""
KEPT = ("connections", "rate_periods")
"""Those that several marts read, so that they are made once."""
