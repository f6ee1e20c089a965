"""application_log: what Zeek's conn, http and ssl logs tell of subscribers' TCP connections."""

import pyarrow as pa

from schemas.table import TIMESTAMP, Column, Table

APPLICATION_LOG = Table(
    name="application_log",
    row="one row of Zeek's conn, http or ssl log about a subscriber's TCP connection; its date is "
    "that of ts",
    columns=(
        Column("capture", pa.string(), "name of the log file", required=True),
        Column("log", pa.string(), "conn, http or ssl", required=True),
        Column(
            "user_partition",
            pa.int32(),
            "share of the users it belongs to, as in packets",
            required=True,
        ),
        Column("user", pa.string(), "the subscriber's address, as in packets", required=True),
        Column("user_port", pa.uint16(), "the mobile side's port", required=True),
        Column("server", pa.string(), "the Internet side's address", required=True),
        Column("server_port", pa.uint16(), "the Internet side's port", required=True),
        Column(
            "ts",
            TIMESTAMP,
            "conn: the connection's first packet; http: the request; ssl: the handshake",
            required=True,
        ),
        Column("end_ts", TIMESTAMP, "conn: the connection's last packet; else ts", required=True),
        Column("service", pa.string(), "protocol that Zeek recognized, as it names it"),
        Column("request", pa.int64(), "http: the request's number in its connection, from 1"),
        Column(
            "answered",
            pa.bool_(),
            "http: a final status came back, after which HTTP goes on (not a tunnel's, 9.3.6); "
            "ssl: the handshake succeeded",
            source="RFC 9110, 15",
        ),
    ),
)
