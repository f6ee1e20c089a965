"""Columns that several marts share.

Marts are small aggregates behind each table and figure.

They hold counts, sums and histograms only, so that hours, days and networks add up without a
rescan. User groups show how many users a sum has at least, and how much users differ. They add up,
too, and name nobody. A row is of one user group (`user_group`), or it lists the user groups that it
holds (`user_groups`). The marts `examples` and `worst_connections` are of single connections.

A group of a mart (the rows that share its `group_columns`) may have only one user. The networks
file's `min_users` leaves out small groups, and `suppressed_groups` counts them.

Mart columns are in `<figure>/mart.py`, beside the SQL that makes them.
"""

import pyarrow as pa

from schemas import Column


def place_and_time(event: str = "the connection starts") -> tuple[Column, ...]:
    """Return the columns of place and time; event: what happens in the local hour."""
    return (
        Column(
            "country", pa.string(), "country code of the network, ISO 3166 alpha-2", required=True
        ),
        Column(
            "access",
            pa.string(),
            "access technology: gprs, edge, umts, lte, nr, dialup, ...",
            required=True,
        ),
        Column("hour", pa.int32(), f"local hour in which {event}", "h", required=True),
        Column(
            "period",
            pa.string(),
            "peak, off_peak or other, by the network's local hours",
            source="INFOCOM III.B",
            required=True,
        ),
    )


PLACE_AND_TIME = place_and_time()

FLOW_COUNT = Column("flows", pa.int64(), "number of connections", "connections", required=True)

SECONDS_BIN = Column("bin", pa.float64(), "lower edge of the histogram bin", "s", required=True)

RATE_BIN = Column(
    "bin",
    pa.int32(),
    "hundred times the natural logarithm of the rate in bit/s, rounded down: bins of 1 %",
    required=True,
)

USER_GROUP = Column(
    "user_group",
    pa.int32(),
    "one of 64 user groups, by a hash of the user. What happens to one user is alike, "
    "so the spread of the groups shows how certain a mean or a share is; "
    "count(distinct user_group) is at most the number of users",
    required=True,
)

USER_GROUPS = Column(
    "user_groups",
    pa.int64(),
    "user groups that have a user in the row, one bit each (user_group of other "
    "marts); bit_count(bit_or(user_groups)) is at most the number of users",
    required=True,
)

COUNTED_BYTES = Column(
    "counted",
    pa.string(),
    "bytes that the rate counts: passed (IP bytes that passed Gi, as in the paper, "
    "lost ones and the first packet included) or arrived (IP bytes that reached the "
    "mobile, flows.…_received). Every transfer has a row of each, so choose one",
    required=True,
)


def connection_count(name: str, meaning: str) -> Column:
    """Return a column with a number of connections."""
    return Column(name, pa.int64(), meaning, "connections", required=True)


def sum_of(name: str, meaning: str, unit: str) -> Column:
    """Return the column `name`_sum, a sum of values."""
    return Column(f"{name}_sum", pa.float64(), f"sum of the {meaning}", unit, required=True)


OPTIONS = (
    Column("sack", pa.bool_(), "whether both SYNs permit SACK. Null if a SYN was not seen"),
    Column(
        "timestamps",
        pa.bool_(),
        "whether both directions have timestamps. Null if one was not seen",
    ),
)


def log_bin(name: str, value: str, null: str = "") -> Column:
    """Return a column of histogram bins for times of any length.

    value: what is counted; null: the condition under which there is no value.
    """
    meaning = (
        f"ten times the natural logarithm of {value}, rounded down: bins of 10 %. A median "
        "interpolated within its bin has an error of a few per cent"
    )
    if null:
        meaning += f". Null if {null}"
    return Column(name, pa.int32(), meaning, required=not null)
