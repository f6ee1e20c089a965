"""leases: who had which address, and when."""

import pyarrow as pa

from schemas.table import TIMESTAMP, Column, Table

LEASES = Table(
    name="leases",
    row="the part within one UTC day of the time for which a subscriber had an address",
    columns=(
        Column(
            "user_partition",
            pa.int32(),
            "share of the users it belongs to, as in packets",
            required=True,
        ),
        Column("address", pa.string(), "the address, as packets.user has it", required=True),
        Column("subscriber", pa.string(), "the subscriber's key, flows.user", required=True),
        Column("start_ts", TIMESTAMP, "from then on", required=True),
        Column("end_ts", TIMESTAMP, "until then, not included", required=True),
    ),
    sorted_by=("user_partition", "address", "start_ts"),
)
