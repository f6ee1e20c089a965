"""application_log: rows of Zeek's conn, http and ssl logs about TCP connections of subscribers."""

from schemas.table import TIMESTAMP, Column, Table

APPLICATION_LOG = Table(
    name="application_log",
    row="one row of Zeek's conn, http or ssl log about a subscriber's TCP connection. Its "
    "date is the date of ts",
    columns=(
        Column("capture", "string", "name of the log file", required=True),
        Column("log", "string", "conn, http or ssl", required=True),
        Column(
            "user_partition",
            "int32",
            "user partition of the connection, as in packets",
            required=True,
        ),
        Column("user", "string", "the subscriber's address, as in packets", required=True),
        Column("user_port", "uint16", "the mobile's port", required=True),
        Column("server", "string", "the server's address", required=True),
        Column("server_port", "uint16", "the server's port", required=True),
        Column(
            "ts",
            TIMESTAMP,
            "conn: time of the connection's first packet; http: time of the request; ssl: time of "
            "the handshake",
            required=True,
        ),
        Column(
            "end_ts",
            TIMESTAMP,
            "conn: time of the connection's last packet; http and ssl: the same as ts",
            required=True,
        ),
        Column("service", "string", "protocol that Zeek recognized, by Zeek's name"),
        Column("request", "int64", "http: number of the request in its connection, from 1"),
        Column(
            "answered",
            "bool",
            "http: whether a final status came back after which HTTP continues (it does not in a "
            "tunnel, RFC 9110, 9.3.6); ssl: whether the handshake succeeded",
            source="RFC 9110, 15",
        ),
    ),
)
