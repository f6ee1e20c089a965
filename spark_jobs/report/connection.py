"""What the tables hold of a connection."""

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
    """A connection's row of flows, with its network and date, and its rows of the tables DETAIL_TABLES."""

    flow: dict[str, Any]
    losses: pa.Table
    retransmissions: pa.Table
    rtt_samples: pa.Table
    rto_values: pa.Table
    stalls: pa.Table


def read_connection(warehouse: Warehouse, flow_id: int) -> Connection:
    """What the tables hold of it. A UserError if there is none."""
    found = read_connections(warehouse, [flow_id], [(None, None)])
    if not found:
        raise UserError(f"{warehouse.root}: no flow {flow_id}")
    return found[0]


def read_connections(
    warehouse: Warehouse,
    flow_ids: list[int],
    days: Iterable[tuple[str | None, datetime.date | None]],
) -> list[Connection]:
    """What the tables hold of those of them that are there on these networks' days (None: on all),
    by one query a table for all."""
    with warehouse.connect_to({}) as tables:

        def rows(table: Table, days: Iterable[tuple]) -> duckdb.DuckDBPyRelation:
            paths = [path for day in days for path in warehouse.files(table, *day)]
            query = f"select * from ({rows_of(table, paths)}) where flow_id in ? order by all"
            return tables.sql(query, params=[flow_ids])

        found = rows(FLOWS, days)
        flows = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
        days = sorted({(flow["network"], flow["date"]) for flow in flows})
        beside = [rows(table, days).to_arrow_table() for table in DETAIL_TABLES] if flows else []
    return [Connection(flow, *(table.filter(_is(flow)) for table in beside)) for flow in flows]


def _is(flow: dict[str, Any]) -> pc.Expression:
    """Which rows are of the connection."""
    of_flow = pc.field("flow_id") == flow["flow_id"]
    return of_flow & (pc.field("network") == flow["network"]) & (pc.field("date") == flow["date"])
