"""Rows of Zeek's conn, http and ssl logs to the connections that they are about."""

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from schemas import SESSIONS

SQL = Path(__file__).with_suffix(".sql")
FOUND = pa.schema([("place", pa.int64()), *list(SESSIONS.arrow)[1:]])
CLOCK_SLACK_US = 10_000
"""How far the clocks of Zeek and of the capture may differ."""


def sessions_of(application_log: pa.Table, flow: pa.Table) -> pa.Table:
    """What the log tells of connections, by their places; see log_matching.sql."""
    if not len(application_log):
        return FOUND.empty_table()
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("set timezone = 'UTC'")
        connection.register("application_log", application_log)
        connection.register("flow", flow)
        found = connection.sql(SQL.read_text(), params={"slack": CLOCK_SLACK_US})
        return found.to_arrow_table().cast(FOUND)


def told_by_log(found: pa.Table, connections: int) -> np.ndarray:
    """int8[connections]: 1 where the log tells of one request and one response, 0 of others, else
    -1."""
    told = np.full(connections, -1, np.int8)
    verdict = found["request_response"].cast(pa.int8()).fill_null(-1)
    told[found["place"].to_numpy()] = verdict.to_numpy()
    return told
