"""The groups of fewer than min_users users, which are left out."""

from spark_jobs.figures.format import count
from spark_jobs.figures.page_elements import NumberTable, Section, group_rows
from spark_jobs.figures.selection import Selection


def sections(selection: Selection) -> list[Section]:
    """Return the section of suppressed groups, or none if no network sets min_users.

    Notes name the days whose marts were made before min_users was set.
    """
    rows = selection.rows("""
        select network, mart, min_users, sum(groups)::bigint as groups,
            sum(suppressed)::bigint as suppressed
        from suppressed_groups group by all order by all
    """)
    earlier = selection.rows("""
        select network, count(distinct date) as days
        from table1_summary join networks using (network)
        where min_users > 0 and (network, date) not in (select network, date from suppressed_groups)
        group by network order by network
    """)
    if not rows and not earlier:
        return []
    notes = [
        f"{network}: {_counts_text(members)} have fewer than {min_users} users."
        for (network, min_users), members in group_rows(rows, "network", "min_users").items()
    ]
    notes += [
        f"{row['network']}: days from before min_users was set, with no group left out: "
        f"{count(row['days'])}."
        for row in earlier
    ]
    by_mart = [
        [row["mart"], row["network"], *(count(row[name]) for name in ("suppressed", "groups"))]
        for row in sorted(rows, key=lambda row: (row["mart"], row["network"], row["min_users"]))
    ]
    return [
        Section(
            anchor="suppressed-groups",
            title="Suppressed groups",
            source="Networks file (min_users; table suppressed_groups)",
            hours="",
            caption="To protect single users, this page leaves out groups of fewer than min_users "
            "users. A group is the part of a day that a table or figure counts for one local hour "
            "and category. Sums cover the remaining groups. The daily checks and the data quality "
            "cover all data.",
            samples=f"{_counts_text(rows)} left out",
            collapsed_tables=[
                NumberTable(
                    ["mart", "network", "left out", "groups"], by_mart, "By mart (docs/schema.md)"
                )
            ],
            notes=notes,
        )
    ]


def _counts_text(rows: list[dict]) -> str:
    """Return the number of suppressed groups and of all groups, in words."""
    suppressed, groups = (sum(row[name] for row in rows) for name in ("suppressed", "groups"))
    return f"{count(suppressed)} of {count(groups)} groups"
