"""networks: the facts about each network that marts and dashboards join."""

import pyarrow as pa

from schemas.table import PARTITION_COLUMNS, Column, Table

NETWORKS = Table(
    name="networks",
    row="one network, as its networks file last described it",
    columns=(
        Column("country", pa.string(), "ISO 3166 alpha-2", required=True),
        Column("access", pa.string(), "gprs, edge, umts, lte, nr, dialup, ...", required=True),
        Column("timezone", pa.string(), "IANA time zone of its local hours", required=True),
        Column("peak_from", pa.int32(), "peak hours, local: from", "h", "INFOCOM III.B", True),
        Column(
            "peak_until",
            pa.int32(),
            "peak hours, local: until, not included",
            "h",
            "INFOCOM III.B",
            True,
        ),
        Column(
            "off_peak_from", pa.int32(), "off-peak hours, local: from", "h", "INFOCOM III.B", True
        ),
        Column(
            "off_peak_until",
            pa.int32(),
            "off-peak hours, local: until, not included",
            "h",
            "INFOCOM III.B",
            True,
        ),
        Column(
            "flight_size_bytes",
            pa.int64(),
            "data in flight above which the channel counts as saturated",
            "B",
            "INFOCOM IV",
            True,
        ),
        Column(
            "slot_rate",
            pa.float64(),
            "nominal rate of one time slot; null: to be found from the channel rates",
            "bit/s",
            "INFOCOM IV, Fig. 7",
        ),
        Column(
            "min_users",
            pa.int32(),
            "marts leave out cells of fewer users (suppressed_groups); 0 or null: none",
            "users",
        ),
    ),
    partitions=PARTITION_COLUMNS[:1],
)
