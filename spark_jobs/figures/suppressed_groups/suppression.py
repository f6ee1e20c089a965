"""Suppression of the groups of marts with fewer users than the network's min_users.

Such a group could identify a person. A group is the rows of one network's day that share the
mart's group columns (`Table.group_columns`), the local hour or the period among them; bins of
histograms are values in a group. On a day with many users, the users of a group are counted by user
groups (mart_columns.py). There are never more user groups than users, so no group with too few
users is kept, but a group with enough users may be left out. Sums over days and hours have no fewer
users than each of their parts. A mart without user groups is of single connections, so each of its
groups has one user.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from schemas import Table
from spark_jobs.figures.mart_columns import USER_COUNT, USER_GROUP, USER_GROUPS
from spark_jobs.figures.suppressed_groups.table import SUPPRESSED_GROUPS

NETWORK_DAY_COLUMNS = ("network", "date", "country", "access")


def without_small_groups(
    table: Table, rows: pa.Table, min_users: Mapping[str, int]
) -> tuple[pa.Table, pa.Table]:
    """Return a mart's rows without its small groups, and the rows of SUPPRESSED_GROUPS about them.

    The rows keep their order. min_users: the minimum number of users of a group, by network; all
    groups of a network that is not in it are kept.
    """
    if not min_users:
        none: list[pa.RecordBatch] = []  # empty_table() would import Pandas
        return rows, pa.Table.from_batches(none, SUPPRESSED_GROUPS.arrow_with_partitions)
    import duckdb

    names = ", ".join(f'"{name}"' for name in (*NETWORK_DAY_COLUMNS, *table.group_columns))
    place = np.arange(rows.num_rows)
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("numbered", rows.append_column("place", pa.array(place)))
        connection.register("thresholds", _threshold_rows(min_users))
        connection.execute(f"""
            create temp table groups as
            select {names}, min_users,
                {_user_count(table)} < min_users as small, list(place) as places
            from numbered join thresholds using (network)
            group by {names}, min_users
        """)
        suppressed = connection.sql("select unnest(places) as place from groups where small")
        kept = ~np.isin(place, suppressed.fetchnumpy()["place"])
        counts = connection.sql(f"""
            select {", ".join(NETWORK_DAY_COLUMNS)}, '{table.name}' as mart, min_users,
                count(*) as groups, count_if(small) as suppressed
            from groups group by all
        """).to_arrow_table()
    columns = SUPPRESSED_GROUPS.arrow_with_partitions
    return rows.filter(pa.array(kept)), counts.select(columns.names).cast(columns)


def _threshold_rows(min_users: Mapping[str, int]) -> pa.Table:
    return pa.table({"network": list(min_users), "min_users": list(min_users.values())})


def _user_count(table: Table) -> str:
    """Return the SQL of the number of users of a group, or of a lower bound (see USER_COUNT)."""
    if USER_GROUP in table.columns:
        return f"count(distinct {USER_GROUP.name})"
    return USER_COUNT if USER_GROUPS[0] in table.columns else "1"
