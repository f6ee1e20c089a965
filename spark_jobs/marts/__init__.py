"""The marts: small aggregates, one SQL file each with the mart's name, for Spark and DuckDB alike.

The rows of a mart's SQL have one number, `local_hour`, instead of the columns of place and time
(see local_hours.sql): grouping by one number takes half the time.
"""

from pathlib import Path

from schemas import Table

SQL_FOLDER = Path(__file__).parent
SHARED_VIEWS = (
    "network_facts", "local_hours", "local_clock", "user_days", "located_connections",
    "located_links", "connections", "rate_periods", "metric_terms",
)  # fmt: skip
"""Views that marts read beside the tables, in order: a view may read those before it."""
SMALL_VIEWS = ("network_facts", "local_hours", "local_clock")
"""Shared views of few rows, which are made as tables."""
CACHED_VIEWS = ("user_days", "located_connections", "located_links", "rate_periods")
"""Shared views of many rows that several marts read, so that their rows are computed once."""
LOCAL_HOUR_COLUMNS = ("network", "date", "country", "access", "hour", "period")
"""Columns of marts that come from the view `local_hours`."""


def sql_text(name: str) -> str:
    """Return the SQL of a mart or a shared view."""
    return (SQL_FOLDER / f"{name}.sql").read_text()


def mart_query(mart: Table) -> str:
    """Return the SQL of a mart's rows, with place and time instead of the number `local_hour`."""
    names = mart.arrow_with_partitions.names
    columns = ", ".join(
        f"{'local_hours' if name in LOCAL_HOUR_COLUMNS else 'mart'}.{name}" for name in names
    )
    return f"""
        select {columns}
        from ({sql_text(mart.name)}) as mart
        join local_hours on local_hours.local_hour = mart.local_hour
    """
