"""leases: the times for which subscribers had their addresses."""

from schemas.labels import LABELS
from schemas.table import TIMESTAMP, Column, Table

LEASES = Table(
    name="leases",
    row="the part of one lease, the time for which a subscriber had an address or prefix, and the "
    "same labels, that lies within one UTC day",
    columns=(
        Column(
            "user_partition",
            "int32",
            "user partition of the address, as in packets",
            required=True,
        ),
        Column(
            "address",
            "string",
            "the address or prefix, in the form of packets.user",
            required=True,
        ),
        Column("subscriber", "string", "the subscriber's key, as in flows.user", required=True),
        Column(
            "link",
            "string",
            "the key of the access link, as in flows.link: the subscriber's, unless RADIUS shows "
            "several bearers of the subscriber in these days",
            source="TS 23.401, 5.3.1.1; TS 29.061, 16",
            required=True,
        ),
        Column(
            "start_ts",
            TIMESTAMP,
            "first time at which the subscriber had the address",
            required=True,
        ),
        Column("end_ts", TIMESTAMP, "end of the lease, exclusive", required=True),
        *LABELS,
    ),
    sorted_by=("user_partition", "address", "start_ts"),
)
