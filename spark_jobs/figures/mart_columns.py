"""Columns that several marts share.

Marts are small aggregates behind each table and figure.

They hold counts, sums and histograms only, so that hours, days and networks add up without a
rescan. User groups show how many users a sum has, and how much users differ. They add up, too, and
name nobody. A row is of one user group (`user_group`), or it lists those that it holds
(`user_groups`, `user_numbers`). On a network's day with few users, each user is a group of its own,
so that users are counted. On a day with many, a hash divides them into GROUPS groups, so that the
marts stay small and groups are a lower bound. The marts `examples` and `worst_connections` are of
single connections.

A group of a mart (the rows that share its `group_columns`) may have only one user. The networks
file's `min_users` leaves out small groups, and `suppressed_groups` counts them.

The other columns are described where the SQL makes them, in `<figure>/mart.sql` (see marts.py).
"""

from schemas import Column

PLACE_AND_TIME = (
    Column("country", "string", "country code of the network, ISO 3166 alpha-2", required=True),
    Column(
        "access",
        "string",
        "access technology: gprs, edge, umts, lte, nr, dialup, ...",
        required=True,
    ),
    Column("hour", "int32", "local hour in which the connection starts", "h", required=True),
    Column(
        "period",
        "string",
        "peak, off_peak or other, by the day's `peak_hours`; all on a day that has none",
        source="INFOCOM III.B",
        required=True,
    ),
)

FLOW_COUNT = Column("flows", "int64", "number of connections", "connections", required=True)

GROUPS = 64
"""Number of user groups into which a hash divides the users of a day with many users."""
MAX_USERS_WITH_NUMBERS = 1024
"""Maximum number of users of a network's day on which each user is a group of its own."""


def user_count(groups: str, numbers: str) -> str:
    """Return SQL of the number of users, given that of the bits of all and of a list of lists."""
    return f"greatest(bit_count({groups}), len(list_distinct(flatten({numbers}))))"


USER_COUNT = user_count("bit_or(user_groups)", "list(user_numbers)")
"""SQL of the number of users of rows with USER_GROUPS; a lower bound if a day has many users."""


def users_with(samples: str) -> str:
    """Return SQL of the number of users of the rows in which `samples` is positive."""
    condition = f"filter (where ({samples}) > 0)"
    return user_count(f"bit_or(user_groups) {condition}", f"list(user_numbers) {condition}")


USER_GROUP = Column(
    "user_group",
    "int32",
    "the user's number, by a hash, on a day on which the network has at most "
    f"{MAX_USERS_WITH_NUMBERS:,} users; else one of {GROUPS} user groups: that number modulo "
    f"{GROUPS}. What happens to one user is alike, so the spread of the groups shows how certain a "
    "mean or a share is",
    required=True,
)

USER_GROUPS = (
    Column(
        "user_groups",
        "int64",
        f"bits of the users in the row, by their numbers modulo {GROUPS}; bit_count(bit_or("
        "user_groups)) is at most the number of users",
        required=True,
    ),
    Column(
        "user_numbers",
        "list<item: int32>",
        "numbers of the users in the row (user_group of other marts). Null on days on which the "
        f"network has more than {MAX_USERS_WITH_NUMBERS:,} users. {USER_COUNT} is the number of "
        "users, or a lower bound if there are such days",
    ),
)


def common_user_group(rows: str) -> str:
    """Return SQL of a row's user group, at the level that all days of its network have.

    rows: SQL of a table or subquery with all rows that are counted together.
    """
    of_many_users = f"(select network from {rows} where user_group < {GROUPS})"
    return f"if(network in {of_many_users}, user_group % {GROUPS}, user_group)"


COUNTED_BYTES = Column(
    "counted",
    "string",
    "bytes that the rate counts: passed (IP bytes that passed Gi, as in the paper, "
    "lost ones and the first packet included) or arrived (IP bytes that reached the "
    "mobile, flows.…_received). Every transfer has a row of each, so choose one",
    required=True,
)


OPTIONS = (
    Column("sack", "bool", "whether both SYNs permit SACK. Null if a SYN was not seen"),
    Column(
        "timestamps",
        "bool",
        "whether both directions have timestamps. Null if one was not seen",
    ),
)

SHARED_COLUMNS = {
    column.name: column
    for column in (FLOW_COUNT, USER_GROUP, *USER_GROUPS, COUNTED_BYTES, *OPTIONS)
}
"""Columns that several marts have, by name; their items in the SQL need no comment."""
