"""A connection's rows of all tables."""

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from schemas import FLOWS, LOSSES, RETRANSMISSIONS, RTO_VALUES, RTT_SAMPLES, STALLS, Table
from spark_jobs.base.errors import UserError
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.views import files_query

DETAIL_TABLES = (LOSSES, RETRANSMISSIONS, RTT_SAMPLES, RTO_VALUES, STALLS)
"""Tables with rows of a connection besides `flows`, in the order of Connection's attributes."""


@dataclass(frozen=True)
class Connection:
    """A connection's row of `flows`, with network and date, and its rows of DETAIL_TABLES."""

    flow: dict[str, Any]
    losses: pa.Table
    retransmissions: pa.Table
    rtt_samples: pa.Table
    rto_values: pa.Table
    stalls: pa.Table


def read_connection(warehouse: Warehouse, flow_id: int) -> Connection:
    """Return a connection's rows; raise UserError if there is no such connection."""
    connections = read_connections(warehouse, [flow_id], [(None, None)])
    if not connections:
        raise UserError(f"{warehouse.root}: no flow {flow_id}")
    return connections[0]


def read_connections(
    warehouse: Warehouse,
    flow_ids: list[int],
    days: Iterable[tuple[str | None, datetime.date | None]],
) -> list[Connection]:
    """Return those of the connections that exist on these days, with one query per table.

    days: (network, date); None stands for all networks or dates.
    """
    with warehouse.connect_to({}) as database:

        def read(table: Table, days: Iterable[tuple]) -> duckdb.DuckDBPyRelation:
            paths = [path for day in days for path in warehouse.files(table, *day)]
            query = f"select * from ({files_query(table, paths)}) where flow_id in ? order by all"
            return database.sql(query, params=[flow_ids])

        rows = read(FLOWS, days)
        flows = [dict(zip(rows.columns, row, strict=True)) for row in rows.fetchall()]
        days = sorted({(flow["network"], flow["date"]) for flow in flows})
        details = [read(table, days).to_arrow_table() for table in DETAIL_TABLES] if flows else []
    return [
        Connection(flow, *(table.filter(_belongs_to(flow)) for table in details)) for flow in flows
    ]


def _belongs_to(flow: dict[str, Any]) -> pc.Expression:
    """Return the condition for rows of the connection."""
    same_id = pc.field("flow_id") == flow["flow_id"]
    return same_id & (pc.field("network") == flow["network"]) & (pc.field("date") == flow["date"])
