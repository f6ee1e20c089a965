"""pages: users' bursts of connections."""

import pyarrow as pa

from schemas.table import TIMESTAMP, Column, Table

PAGES = Table(
    name="pages",
    row="one burst of a user's connections, as a page that loads makes them: before it, the user "
    "was idle for more than a second and two round trips; of the connections that start on the "
    "date, TCP's of any port and QUIC's (UDP port 443), where TCP sent something to the mobile; "
    "connections of which one direction was not seen have no part in it",
    columns=(
        Column("user", pa.string(), "the subscriber's key", required=True),
        Column(
            "start_ts",
            TIMESTAMP,
            "the first SYN, request or data",
            source="Smith et al., SIGMETRICS 2001",
            required=True,
        ),
        Column("end_ts", TIMESTAMP, "the ACK of its last data", required=True),
        Column(
            "connections",
            pa.int64(),
            "that were active in it: with an open request, or data sent or not acknowledged",
            "connections",
            required=True,
        ),
        Column(
            "parallel",
            pa.int64(),
            "the most of them that were active at the same time",
            "connections",
            required=True,
        ),
        Column("ip_bytes", pa.int64(), "IP bytes of data to the mobile", "B", required=True),
        Column(
            "payload_bytes",
            pa.int64(),
            "TCP payload to the mobile, each byte once",
            "B",
            required=True,
        ),
        Column(
            "rate_share",
            pa.float64(),
            "the rate of ip_bytes from start to end, as a share of the user's channel rate in the "
            "hour in which it starts (see links); null where that is not known, or more than 1 % "
            "of a connection was not seen",
            source="INFOCOM IV",
        ),
    ),
    sorted_by=("start_ts",),
)
