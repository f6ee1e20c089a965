"""A connection's rows of all tables."""

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from schemas import FLOWS, LOSSES, RETRANSMISSIONS, RTO_VALUES, RTT_SAMPLES, STALLS, Table
from spark_jobs.errors import UserError
from spark_jobs.warehouse import Warehouse
from spark_jobs.warehouse.views import rows_of

DETAIL_TABLES = (LOSSES, RETRANSMISSIONS, RTT_SAMPLES, RTO_VALUES, STALLS)


@dataclass(frozen=True)
class Connection:
    """A connection's row of flows, with its network and date, and its rows_of_table of the database DETAIL_TABLES."""

    flow: dict[str, Any]
    losses: pa.Table
    retransmissions: pa.Table
    rtt_samples: pa.Table
    rto_values: pa.Table
    stalls: pa.Table


def read_connection(warehouse: Warehouse, flow_id: int) -> Connection:
    """What the database hold of it. A UserError if there is none."""
    connections = read_connections(warehouse, [flow_id], [(None, None)])
    if not connections:
        raise UserError(f"{warehouse.root}: no flow {flow_id}")
    return connections[0]


def read_connections(
    warehouse: Warehouse,
    flow_ids: list[int],
    days: Iterable[tuple[str | None, datetime.date | None]],
) -> list[Connection]:
    """What the database hold of those of them that are there on these networks' days (None: on all),
    by one query a table for all."""
    with warehouse.connect_to({}) as database:

        def rows_of_table(table: Table, days: Iterable[tuple]) -> duckdb.DuckDBPyRelation:
            paths = [path for day in days for path in warehouse.files(table, *day)]
            query = f"select * from ({rows_of(table, paths)}) where flow_id in ? order by all"
            return database.sql(query, params=[flow_ids])

        connections = rows_of_table(FLOWS, days)
        flows = [dict(zip(connections.columns, row, strict=True)) for row in connections.fetchall()]
        days = sorted({(flow["network"], flow["date"]) for flow in flows})
        details = [rows_of_table(table, days).to_arrow_table() for table in DETAIL_TABLES] if flows else []
    return [Connection(flow, *(table.filter(_belongs_to(flow)) for table in details)) for flow in flows]


def _belongs_to(flow: dict[str, Any]) -> pc.Expression:
    """Which rows_of_table are of the connection."""
    of_flow = pc.field("flow_id") == flow["flow_id"]
    return of_flow & (pc.field("network") == flow["network"]) & (pc.field("date") == flow["date"])
