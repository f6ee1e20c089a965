"""pages: bursts of connections of one user."""

from schemas.labels import LABELS
from schemas.table import TIMESTAMP, Column, Table

PAGES = Table(
    name="pages",
    row="one burst of a user's connections, as a page that loads makes them. Before it, the "
    "user was idle for more than a second and two round trips. It has the connections "
    "that start on the date, TCP's and QUIC's, if the mobile got data. TCP's connections of which "
    "one direction was not seen do not count",
    columns=(
        Column("user", "string", "the user's key", required=True),
        Column(
            "start_ts",
            TIMESTAMP,
            "time of the first SYN, request or data",
            source="Smith et al., SIGMETRICS 2001",
            required=True,
        ),
        Column("end_ts", TIMESTAMP, "time of the ACK of its last data", required=True),
        Column(
            "connections",
            "int64",
            "connections active in the page: with an open request, or with data sent and not "
            "acknowledged",
            "connections",
            required=True,
        ),
        Column(
            "quic_connections",
            "int64",
            "those of them that are QUIC's (see quic_flows)",
            "connections",
            required=True,
        ),
        Column(
            "parallel",
            "int64",
            "maximum number of connections that were active at the same time",
            "connections",
            required=True,
        ),
        Column("ip_bytes", "int64", "IP bytes of data to the mobile", "B", required=True),
        Column(
            "payload_bytes",
            "int64",
            "TCP payload to the mobile, each byte once",
            "B",
            required=True,
        ),
        Column(
            "rate_share",
            "double",
            "the mean rate of ip_bytes from start to end, as a share of the user's channel rate "
            "in the hour in which the page starts (see links). Null if the channel rate is not "
            "known, or if Gi missed more than 1 % of a connection's data",
            source="INFOCOM IV",
        ),
        *LABELS,
    ),
    sorted_by=("start_ts",),
)
