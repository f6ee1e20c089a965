"""The marts as small aggregates: one SQL file each, named for it, for Spark and DuckDB alike.

A mart's SQL says `local_hour`, a number, where its rows say where and when (see local_hours.sql): to group by
one number takes half the time.
"""

from pathlib import Path

from schemas import Table

SQL = Path(__file__).parent
SHARED = (
    "places", "local_hours", "clock", "users", "placed", "placed_links", "connections", "rate_periods",
    "measures",
)  # fmt: skip
"""What marts read beside the tables; a later one may read an earlier one."""
SMALL = ("places", "local_hours", "clock")
"""Those of few rows, and"""
KEPT = ("users", "placed", "placed_links", "rate_periods")
"""those of many that several marts read: they are made once."""
WHERE = ("network", "date", "country", "access", "hour", "period")
"""What `local_hours` says of a local hour."""


def text_of(name: str) -> str:
    """A file's SQL."""
    return (SQL / f"{name}.sql").read_text()


def query_of(mart: Table) -> str:
    """The SQL of a mart's rows, with where and when instead of their cell."""
    names = mart.arrow_with_partitions.names
    columns = ", ".join(f"{'local_hours' if name in WHERE else 'mart'}.{name}" for name in names)
    return f"""
        select {columns}
        from ({text_of(mart.name)}) as mart
        join local_hours on local_hours.local_hour = mart.local_hour
    """
