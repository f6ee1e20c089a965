"""leases: the times for which subscribers had their addresses."""

from schemas.table import TIMESTAMP, Column, Table

LEASES = Table(
    name="leases",
    row="the part of one lease, the time for which a subscriber had an address, that lies "
    "within one UTC day",
    columns=(
        Column(
            "user_partition",
            "int32",
            "user partition of the address, as in packets",
            required=True,
        ),
        Column("address", "string", "the address, in the form of packets.user", required=True),
        Column("subscriber", "string", "the subscriber's key, as in flows.user", required=True),
        Column(
            "start_ts",
            TIMESTAMP,
            "first time at which the subscriber had the address",
            required=True,
        ),
        Column("end_ts", TIMESTAMP, "end of the lease, exclusive", required=True),
    ),
    sorted_by=("user_partition", "address", "start_ts"),
)
