"""sessions: what Zeek's conn, http and ssl logs report about a connection."""

from schemas.table import Column, Table

SESSIONS = Table(
    name="sessions",
    row="one connection that Zeek's conn, http or ssl log describes. Its date is the date on "
    "which the connection starts",
    columns=(
        Column("flow_id", "int64", "the connection, as in flows", required=True),
        Column(
            "service",
            "string",
            "protocols that Zeek recognized, by Zeek's names, comma-separated. Null if it "
            "recognized none",
        ),
        Column("requests", "int64", "HTTP requests. Null if http.log has none"),
        Column(
            "responses",
            "int64",
            "HTTP requests that got a final status. Null if http.log has no request",
        ),
        Column(
            "request_response",
            "bool",
            "whether the connection has exactly one HTTP request and its response. False also if "
            "ssl.log shows that TLS was not established. Null if the logs show no request",
            source="INFOCOM VI.A",
        ),
    ),
    sorted_by=("flow_id",),
)
