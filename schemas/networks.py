"""networks: the facts about each network that marts and dashboards need."""

from schemas.table import PARTITION_COLUMNS, Column, Table

NETWORKS = Table(
    name="networks",
    row="one network, as its networks file last described it",
    columns=(
        Column("country", "string", "country code, ISO 3166 alpha-2", required=True),
        Column(
            "access",
            "string",
            "access technology: gprs, edge, umts, lte, nr, dialup, ...",
            required=True,
        ),
        Column("timezone", "string", "IANA time zone of its local hours", required=True),
        Column(
            "flight_size_bytes",
            "int64",
            "bytes in flight above which the channel counts as saturated",
            "B",
            "INFOCOM IV",
            True,
        ),
        Column(
            "slot_rate",
            "double",
            "nominal rate of one time slot. Null if it is to be inferred from the channel rates",
            "bit/s",
            "INFOCOM IV, Fig. 7",
        ),
        Column(
            "min_users",
            "int32",
            "minimum number of users of a group: the marts leave out smaller groups "
            "(suppressed_groups). 0 or null: the marts leave out no group",
            "users",
        ),
    ),
    partitions=PARTITION_COLUMNS[:1],
)
