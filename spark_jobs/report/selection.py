"""What a report is about: some networks and days of the marts."""

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from schemas import NETWORKS, QUALITY, TABLES, Table
from spark_jobs.errors import UserError
from spark_jobs.warehouse import Warehouse
from spark_jobs.warehouse.views import create_views

COLOURS = ("#0067a3", "#b84f00", "#00795a", "#a8457f", "#7d6200", "#2b7fa8", "#444444")
"""Okabe and Ito's colours for all kinds of sight, darkened so that text in them is readable."""


@dataclass(frozen=True)
class ShownNetwork:
    """A network and the colour it has in every figure."""

    name: str
    country: str
    access: str
    colour: str


@dataclass
class Selection:
    """The networks, the days, and SQL over marts restricted to them."""

    networks: list[ShownNetwork]
    first_day: datetime.date
    last_day: datetime.date
    connection: duckdb.DuckDBPyConnection
    warehouse: Warehouse

    def rows(self, query: str) -> list[dict[str, Any]]:
        """The query's rows; NaN, which a division by zero gives, is null."""
        answer = self.connection.sql(query)
        names = answer.columns
        return [
            {
                name: None if isinstance(value, float) and value != value else value
                for name, value in zip(names, row, strict=True)
            }
            for row in answer.fetchall()
        ]


ALWAYS = (NETWORKS, QUALITY)
"""Tables read whole: the networks' names, and the last days, whichever are chosen."""


def select(
    warehouse: Warehouse,
    names: list[str] | None,
    since: datetime.date | None,
    until: datetime.date | None,
    tables: Iterable[Table] = tuple(TABLES.values()),
) -> Selection:
    """The tables restricted to some networks and days; a UserError where that leaves nothing. No
    file of the others is opened."""
    connection = warehouse.connect_to({table: warehouse.files(table) for table in ALWAYS})
    known = connection.sql(
        "select distinct network, country, access from networks order by network"
    ).fetchall()
    unknown = set(names or []) - {name for name, _, _ in known}
    if unknown:
        there = ", ".join(name for name, _, _ in known) or "none"
        raise UserError(f"report: no network {sorted(unknown)[0]!r}; the warehouse has {there}")
    wanted = names or [name for name, _, _ in known]
    low, high = since or datetime.date.min, until or datetime.date.max
    chosen = [table for table in tables if table not in ALWAYS]
    create_views(
        connection, {table: _files(warehouse, table, wanted, low, high) for table in chosen}
    )
    shown = connection.sql("""
        select network, min(date), max(date)
        from (select network, date from table1_summary
              union all select network, date from suppressed_groups)
        group by network
    """).fetchall()
    if not shown:
        raise UserError(
            f"report: nothing to show for {', '.join(wanted) or 'any network'}: no marts"
            + (f" from {since}" if since else "")
            + (f" to {until}" if until else "")
        )
    with_data = {name for name, _, _ in shown}
    colours = {name: COLOURS[i % len(COLOURS)] for i, (name, _, _) in enumerate(known)}
    return Selection(
        [
            ShownNetwork(name, country, access, colours[name])
            for name, country, access in known
            if name in with_data
        ],
        min(first for _, first, _ in shown),
        max(last for _, _, last in shown),
        connection,
        warehouse,
    )


def _files(
    warehouse: Warehouse, table: Table, names: list[str], low: datetime.date, high: datetime.date
) -> list[Path]:
    """A table's files of some networks from one day to another; not those of no day, as of captures
    that could not be read."""
    first, last = f"date={low.isoformat()}", f"date={high.isoformat()}"
    return [
        path
        for name in names
        for path in warehouse.files(table, name)
        if first <= path.parent.name <= last
    ]
