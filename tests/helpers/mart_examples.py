"""The worked example of each mart: its input rows as tables."""

from collections.abc import Container
from datetime import UTC, datetime, time
from itertools import count
from typing import Any

import duckdb
import pyarrow as pa
from conftest import DAY

from schemas import FLOWS, NETWORKS, PEAK_HOURS, QUIC_FLOWS
from spark_jobs.figures.mart_sql import view_statements
from spark_jobs.figures.sql_functions import register
from spark_jobs.tables.mart_rows import INPUTS

Rows = list[dict[str, Any]]


Example = dict[str, Rows]


AT = time(10)


DEFAULTS = {
    "network": "n", "date": DAY, "initiator": "mobile",
    "start_ts": AT, "end_ts": AT, "ts": AT, "hour": AT,
}  # fmt: skip


NETWORK = {
    "network": "n", "country": "AA", "access": "gprs", "timezone": "Europe/Budapest",
}  # fmt: skip


HOURS = {
    "peak_from": 10, "peak_until": 12, "off_peak_from": 3, "off_peak_until": 7, "set_by": "file",
}  # fmt: skip


def connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    register(connection)
    return connection


def create_tables(connection: duckdb.DuckDBPyConnection, rows: Example) -> None:
    """Create the tables that the marts are made from, and the views and functions they use."""
    for table in (*INPUTS, NETWORKS):
        columns = table.arrow_with_partitions
        given = [NETWORK] if table is NETWORKS else rows.get(table.name, [])
        if table is PEAK_HOURS and not given:
            days = {(row["network"], row["date"]) for given in rows.values() for row in given}
            given = [{"network": network, "date": day, **HOURS} for network, day in days]
        assert {name for row in given for name in row} <= {*columns.names}
        connection.register(table.name, pa.Table.from_pylist(given, columns))
    for statement in view_statements(stored=()):
        connection.execute(statement)


def input_rows(example: Example) -> Example:
    """Return the rows of the tables, with the defaults and a row for each user or connection."""
    numbers = count(1)
    connections: list[Rows] = []
    rows: Example = {}
    for table in INPUTS:
        names = table.arrow_with_partitions.names
        rows[table.name] = []
        for given in example.get(table.name, []):
            values = dict(given)
            if "flow_id" in names and table not in (FLOWS, QUIC_FLOWS):
                owners = connections[values.pop("flow", 1) - 1]
            else:
                first = values.pop("user", 1) - 1
                chosen = range(first, first + values.pop("users", 1))
                owners = [
                    {"user": f"user{n}", "link": f"user{n}", "flow_id": next(numbers)}
                    for n in chosen
                ]
            made = [with_dates(picked(DEFAULTS | owner, names) | values) for owner in owners]
            if table is FLOWS:
                connections.append(made)
            rows[table.name] += made
    return rows


def with_dates(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose times of day are times of its date."""
    return {
        name: datetime.combine(row["date"], value, UTC) if isinstance(value, time) else value
        for name, value in row.items()
    }


def picked(row: dict[str, Any], names: Container[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name in names}
