"""The columns of the table suppressed_groups."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import PLACE_AND_TIME

SUPPRESSED_GROUPS = Table(
    "suppressed_groups",
    "one mart of a network whose networks file sets min_users: the number of its "
    "groups of the day, and the number of those that are left out because they have "
    "fewer users",
    (
        *(column for column in PLACE_AND_TIME if column.name in ("country", "access")),
        Column("mart", "string", "name of the mart", required=True),
        Column(
            "min_users",
            "int32",
            "minimum number of users of a group that is kept. On days with many users, "
            "they are counted by user groups, of which there are at most as many",
            "users",
            required=True,
        ),
        Column("groups", "int64", "groups of the day, kept or suppressed", "groups", required=True),
        Column("suppressed", "int64", "of these, suppressed groups", "groups", required=True),
    ),
)
