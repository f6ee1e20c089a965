"""accounting: RADIUS messages about the addresses of subscribers."""

from schemas.labels import LABELS
from schemas.table import TIMESTAMP, Column, Table

NAS = "nas"
ACCEPTED = "accepted"
STATUSES = {0: ACCEPTED, 1: "start", 2: "stop", 3: "update", 7: NAS, 8: NAS}
"""`status` by Acct-Status-Type (RFC 2866, 5.1); the log has 0 for an Access-Accept.

Messages of other types are left out.
"""

ACCOUNTING = Table(
    name="accounting",
    row="one address or prefix in a RADIUS message about a subscriber, from Zeek's log. Its date "
    "is the message's date",
    columns=(
        Column("capture", "string", "name of the log file", required=True),
        Column(
            "ts",
            TIMESTAMP,
            "time of the event that the message reports: the message's time less Acct-Delay-Time",
            required=True,
        ),
        Column(
            "status",
            "string",
            "start, stop or update of a session; nas (the access server began or ended its "
            "accounting, which ends its sessions); or accepted (an authentication)",
            source="RFC 2866, 5.1",
            required=True,
        ),
        Column(
            "nas", "string", "address of the access server that sent the message", required=True
        ),
        Column(
            "session",
            "string",
            "the session's key, made from Acct-Session-Id",
            source="RFC 2866, 5.5",
        ),
        Column("user_partition", "int32", "user partition of the address, as in packets"),
        Column(
            "charging",
            "string",
            "the bearer's key, made from 3GPP-Charging-Id",
            source="TS 29.061, 16.4.7",
        ),
        Column(
            "multi_session",
            "string",
            "the key of sessions that belong together, made from Acct-Multi-Session-Id",
            source="RFC 2866, 5.11",
        ),
        Column(
            "address",
            "string",
            "an assigned address or prefix, in the form of packets.user: Framed-IP-Address, "
            "Framed-IPv6-Prefix or Delegated-IPv6-Prefix",
            source="RFC 2865, 5.8; RFC 3162, 2.3; RFC 4818",
        ),
        Column(
            "subscriber",
            "string",
            "the subscriber's key, made from IMSI, Calling-Station-Id or User-Name",
        ),
        Column(
            "session_time",
            "double",
            "Acct-Session-Time: duration of the session so far",
            "s",
            "RFC 2866, 5.7",
        ),
        *LABELS,
    ),
)
