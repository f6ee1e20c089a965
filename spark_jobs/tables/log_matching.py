"""Matching of rows of Zeek's conn, http and ssl logs with the connections that they describe."""

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from schemas import SESSIONS

SQL = Path(__file__).with_suffix(".sql")
MATCHED_SCHEMA = pa.schema([("place", pa.int64()), *list(SESSIONS.arrow)[1:]])
CLOCK_SLACK_US = 10_000
"""Maximum difference between the clocks of Zeek and of the capture (µs)."""


def matched_sessions(application_log: pa.Table, flow: pa.Table) -> pa.Table:
    """Return what the log reports about connections, by their index; see log_matching.sql.

    flow: place, user, user_port, server, server_port, start_us and end_us of each connection.
    """
    if not len(application_log):
        return MATCHED_SCHEMA.empty_table()
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("set timezone = 'UTC'")
        connection.register("application_log", application_log)
        connection.register("flow", flow)
        matched = connection.sql(SQL.read_text(), params={"slack": CLOCK_SLACK_US})
        return matched.to_arrow_table().cast(MATCHED_SCHEMA)


def request_response_of_log(sessions: pa.Table, connections: int) -> np.ndarray:
    """Return whether the log reports one request and one response, int8[connections].

    1: it does; 0: it reports something else; -1: it does not report on the connection's requests.
    """
    reported = np.full(connections, -1, np.int8)
    flag = sessions["request_response"].cast(pa.int8()).fill_null(-1)
    reported[sessions["place"].to_numpy()] = flag.to_numpy()
    return reported
