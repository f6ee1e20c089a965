"""sessions: what Zeek's conn, http and ssl logs say of a flow."""

import pyarrow as pa

from schemas.table import Column, Table

SESSIONS = Table(
    name="sessions",
    row="one flow of which Zeek's conn, http or ssl log tells, on the date on which it starts",
    columns=(
        Column("flow_id", pa.int64(), "the connection, as in flows", required=True),
        Column(
            "service",
            pa.string(),
            "protocols that Zeek recognized, as it names them, comma-separated; null: none",
        ),
        Column("requests", pa.int64(), "HTTP requests; null where http.log tells of none"),
        Column("responses", pa.int64(), "HTTP requests that got a final status"),
        Column(
            "request_response",
            pa.bool_(),
            "one HTTP request and its response; false too where ssl.log tells that TLS was not "
            "established; null where the logs tell of no request",
            source="INFOCOM VI.A",
        ),
    ),
    sorted_by=("flow_id",),
)
