"""accounting: what RADIUS says of who has which address."""

import pyarrow as pa

from schemas.table import TIMESTAMP, Column, Table

NAS = "nas"
ACCEPTED = "accepted"
STATUSES = {0: ACCEPTED, 1: "start", 2: "stop", 3: "update", 7: NAS, 8: NAS}
"""Acct-Status-Type (RFC 2866, 5.1), as the log has it, 0 of an Access-Accept, to `status`; others
are left out."""

ACCOUNTING = Table(
    name="accounting",
    row="one RADIUS message about a subscriber's address, as logged by Zeek; its date is the "
    "message's",
    columns=(
        Column("capture", pa.string(), "name of the log file", required=True),
        Column("ts", TIMESTAMP, "when what it tells happened: less Acct-Delay-Time", required=True),
        Column(
            "status",
            pa.string(),
            "start, stop or update of a session; nas: the access server began or ended its "
            "accounting, which ends its sessions; accepted: an authentication",
            source="RFC 2866, 5.1",
            required=True,
        ),
        Column("nas", pa.string(), "address that the message came from", required=True),
        Column("session", pa.string(), "Acct-Session-Id", source="RFC 2866, 5.5"),
        Column("user_partition", pa.int32(), "of the address, as in packets"),
        Column("address", pa.string(), "Framed-IP-Address, as packets.user has it"),
        Column(
            "subscriber",
            pa.string(),
            "the subscriber's key, made of IMSI, Calling-Station-Id or User-Name",
        ),
        Column(
            "session_time",
            pa.float64(),
            "Acct-Session-Time: how long the session has lasted",
            "s",
            "RFC 2866, 5.7",
        ),
    ),
)
