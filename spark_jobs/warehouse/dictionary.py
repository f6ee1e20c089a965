"""The data dictionary, from the schemas."""

from rich.console import Console
from rich.table import Table as Grid

from schemas import INGEST_LOG, SKIP_REASONS, TABLES, Table
from spark_jobs.errors import UserError


def print_tables(out: Console, name: str | None) -> None:
    """Print one table's columns, or every table's."""
    if name is not None and name not in TABLES:
        raise UserError(f"schema: no table {name!r}; there are {', '.join(TABLES)}")
    for table in TABLES.values():
        if name in (None, table.name):
            out.print(_grid(table))
            if table is INGEST_LOG:
                out.print(_reasons())


def _grid(table: Table) -> Grid:
    grid = Grid(title=f"{table.name}: one row is {table.row}", title_justify="left")
    for heading in ("column", "type", "unit", "null", "meaning", "source"):
        grid.add_column(heading, overflow="fold", no_wrap=heading == "column")
    for column in (*table.partitions, *table.columns):
        grid.add_row(
            column.name,
            str(column.type),
            column.unit,
            "" if column.required else "yes",
            column.meaning,
            column.source,
        )
    return grid


def _reasons() -> Grid:
    grid = Grid(title="ingest_log.skipped: reasons", title_justify="left")
    for heading in ("reason", "meaning"):
        grid.add_column(heading, overflow="fold")
    for reason, meaning in SKIP_REASONS.items():
        grid.add_row(reason, meaning)
    return grid
