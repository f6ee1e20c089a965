"""Cells of the marts that could single out a person: of fewer users than the network's min_users.

A cell is what a mart says of a network's day by local hour, or period, and categories
(`Table.group_columns`); bins of histograms are values in it. Its users are counted by groups of users, of
which there are at most as many: none is kept that has too few, and one that has enough may be left
out. Days and hours that are added up have no fewer users than each of them. A mart that tells no
groups is of single connections, so each of its cells is of one user.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from schemas import SUPPRESSED_GROUPS, Table

WHERE = ("network", "date", "country", "access")


def without_small_groups(
    table: Table, rows: pa.Table, least: Mapping[str, int]
) -> tuple[pa.Table, pa.Table]:
    """A mart's rows, in their order, without the cells of fewer users than is the `least` of their
    network; and what SUPPRESSED_GROUPS says of it. Of networks that are not in `least` all are kept."""
    if not least:
        return rows, SUPPRESSED_GROUPS.arrow_with_partitions.empty_table()
    import duckdb

    names = ", ".join(f'"{name}"' for name in (*WHERE, *table.group_columns))
    place = np.arange(rows.num_rows)
    with duckdb.connect() as connection:
        connection.register("numbered", rows.append_column("place", pa.array(place)))
        connection.register("least", _rows(least))
        connection.execute(f"""
            create temp table groups as
            select {names}, min_users, {_users(table)} < min_users as small, list(place) as places
            from numbered join least using (network)
            group by {names}, min_users
        """)
        suppressed = connection.sql("select unnest(places) as place from groups where small")
        kept = ~np.isin(place, suppressed.fetchnumpy()["place"])
        counted = connection.sql(f"""
            select {", ".join(WHERE)}, '{table.name}' as mart, min_users,
                count(*) as groups, count_if(small) as suppressed
            from groups group by all
        """).to_arrow_table()
    columns = SUPPRESSED_GROUPS.arrow_with_partitions
    return rows.filter(pa.array(kept)), counted.select(columns.names).cast(columns)


def _rows(least: Mapping[str, int]) -> pa.Table:
    return pa.table({"network": list(least), "min_users": list(least.values())})


def _users(table: Table) -> str:
    """SQL: of how many users a cell is, at least."""
    columns = {column.name for column in table.columns}
    if "user_group" in columns:
        return "count(distinct user_group)"
    return "bit_count(bit_or(user_groups))" if "user_groups" in columns else "1"
