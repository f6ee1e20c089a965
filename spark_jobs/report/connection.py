"""What the tables hold of a connection."""

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from schemas import FLOWS, LOSSES, RETRANSMISSIONS, ROUND_TRIPS, STALLS, TIMERS, Table
from spark_jobs.errors import UserError
from spark_jobs.warehouse import Warehouse
from spark_jobs.warehouse.views import rows_of

BESIDE = (LOSSES, RETRANSMISSIONS, ROUND_TRIPS, TIMERS, STALLS)


@dataclass(frozen=True)
class Connection:
    """A connection's row of flows, with its network and date, and its rows of the tables BESIDE."""

    flow: dict[str, Any]
    losses: pa.Table
    retransmissions: pa.Table
    round_trips: pa.Table
    timers: pa.Table
    stalls: pa.Table


def connection_of(
    warehouse: Warehouse,
    flow_id: int,
    network: str | None = None,
    day: datetime.date | None = None,
) -> Connection:
    """What the tables hold of it; network, day: where it is, if that is known. A UserError if there
    is none."""
    with duckdb.connect() as tables:
        tables.execute("set timezone = 'UTC'")

        def rows(table: Table, paths: list[Path]) -> duckdb.DuckDBPyRelation:
            query = f"select * from ({rows_of(table, paths)}) where flow_id = ? order by all"
            return tables.sql(query, params=[flow_id])

        found = rows(FLOWS, warehouse.files(FLOWS, network, day))
        flows = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
        if not flows:
            raise UserError(f"{warehouse.root}: no flow {flow_id}")
        flow = flows[0]
        beside = [
            rows(table, warehouse.files(table, flow["network"], flow["date"])).to_arrow_table()
            for table in BESIDE
        ]
    return Connection(flow, *beside)
