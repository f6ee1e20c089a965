"""Quality of the data: daily checks, suppressed groups, captures and skipped frames."""

from schemas import MAX_OPTIONS_CUT_SHARE, SKIP_REASONS
from spark_jobs.report.page_elements import NumberTable, Section, group_rows, number
from spark_jobs.report.selection import Selection

LAST_DAYS = 7
"""Number of days with all checks shown; held days are always shown."""


def daily_checks(selection: Selection) -> Section:
    """Return the last days, newest first, and every held day, with the reasons."""
    days = selection.rows(f"""
        with days as (
            select network, date, bool_and(passed) as passed, max(released) as released,
                string_agg(finding, '; ' order by measure) filter (where not passed) as findings
            from quality
            where network in ({", ".join(f"'{network.name}'" for network in selection.networks)})
            group by network, date
        )
        select * from days
        qualify dense_rank() over (order by date desc) <= {LAST_DAYS} or not passed
        order by date desc, network
    """)
    rows = [
        [
            f"{row['date']}",
            row["network"],
            "published" if row["passed"] else "released" if row["released"] else "held back",
            "; ".join(text for text in (row["findings"], row["released"]) if text),
        ]
        for row in days
    ]
    held = sum(row[2] == "held back" for row in rows)
    return Section(
        anchor="state",
        title="Daily checks",
        source="Table quality",
        hours="",
        caption="The figures below do not contain held days. docs/operations.md explains how to "
        "release a day.",
        samples=f"{held} held",
        tables=[NumberTable(["date", "network", "state", "reason"], rows)] if rows else [],
        open_tables=True,
        notes=[] if rows else ["No day has been checked. Run giscope check."],
    )


def suppressed_groups(selection: Selection) -> list[Section]:
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
        f"{number(row['days'])}."
        for row in earlier
    ]
    by_mart = [
        [row["mart"], row["network"], *(number(row[name]) for name in ("suppressed", "groups"))]
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
    return f"{number(suppressed)} of {number(groups)} groups"


def captures(selection: Selection) -> Section:
    """Return captures, frames and packets of each network, and skipped frames by reason."""
    totals = selection.rows("""
        select network, count(*) as captures, sum(frames)::bigint as frames,
            sum(packets)::bigint as packets, min(first_ts) as first_ts, max(last_ts) as last_ts
        from ingest_log where error is null group by network order by network
    """)
    skipped = selection.rows("""
        select network, entry.key as reason, sum(entry.value)::bigint as frames
        from (select network, unnest(map_entries(skipped)) as entry from ingest_log)
        group by all order by all
    """)
    cut = selection.rows(f"""
        select network, count(*) as days, arg_max(finding, value) as finding
        from quality where measure = 'options_cut_share' and value > {MAX_OPTIONS_CUT_SHARE}
        group by network order by network
    """)
    rows = [
        [
            row["network"],
            number(row["captures"]),
            number(row["frames"]),
            number(row["packets"]),
            f"{row['first_ts']:%Y-%m-%d %H:%M:%S}",
            f"{row['last_ts']:%Y-%m-%d %H:%M:%S}",
        ]
        for row in totals
    ]
    tables = [
        NumberTable(["network", "captures", "frames", "packets", "from (UTC)", "to (UTC)"], rows)
    ]
    if skipped:
        tables.append(
            NumberTable(
                ["network", "reason", "count", "meaning"],
                [
                    [
                        row["network"],
                        row["reason"],
                        number(row["frames"]),
                        SKIP_REASONS.get(row["reason"], ""),
                    ]
                    for row in skipped
                ],
                "Skipped frames",
            )
        )
    return Section(
        anchor="quality",
        part_heading="The data",
        title="Data quality",
        source="Captures read (table ingest_log)",
        hours="",
        caption="giscope counts every frame of a capture: as a packet, or by the reason to skip it."
        + ("" if skipped else " Here, every frame is a packet."),
        samples=f"{number(sum(row['packets'] for row in totals))} packets",
        tables=tables,
        open_tables=True,
        notes=[f"{row['network']}, on {row['days']} days: {row['finding']}." for row in cut],
    )
