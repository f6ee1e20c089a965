"""What the numbers rest on: captures read, and what could not be."""

from schemas import MANY_OPTIONS_CUT, SKIP_REASONS
from spark_jobs.report.page_elements import Section, NumberTable, group, number
from spark_jobs.report.selection import Selection

LAST_DAYS = 7


def state(selection: Selection) -> Section:
    """The last days, newest first, and every day that is held back, with the reasons."""
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
        title="The last days",
        source="Daily checks (table quality)",
        hours="",
        caption="What is held back is not in the figures below. How to release a day: "
        "docs/operations.md.",
        samples=f"{held} held back",
        tables=[NumberTable(["date", "network", "state", "why"], rows)] if rows else [],
        open_tables=True,
        notes=[] if rows else ["No day has been checked: see giscope check."],
    )


def small_groups(selection: Selection) -> list[Section]:
    """How many groups of the marts are left out, for they are of fewer users than min_users, and of
    which days none is; nothing where no network has one."""
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
        f"{network}: {_of_cells(mine)} are of fewer than {least} users."
        for (network, least), mine in group(rows, "network", "min_users").items()
    ]
    notes += [
        f"{row['network']}: days from before min_users was set, of which nothing is left out: "
        f"{number(row['days'])}."
        for row in earlier
    ]
    told = [
        [row["mart"], row["network"], *(number(row[name]) for name in ("suppressed", "groups"))]
        for row in sorted(rows, key=lambda row: (row["mart"], row["network"], row["min_users"]))
    ]
    return [
        Section(
            anchor="small-groups",
            title="Small groups",
            source="Networks file (min_users; table suppressed_groups)",
            hours="",
            caption="So that no figure is of one person or a few, small groups are left out of "
            "everything on this page but the daily checks and the data quality. A cell is what a "
            "table or figure counts of a day by local hour and category; sums are of what is left.",
            samples=f"{_of_cells(rows)} left out",
            collapsed_tables=[
                NumberTable(
                    ["mart", "network", "left out", "of groups"], told, "By mart (docs/schema.md)"
                )
            ],
            notes=notes,
        )
    ]


def _of_cells(rows: list[dict]) -> str:
    """How many are left out of how many."""
    suppressed, groups = (sum(row[name] for row in rows) for name in ("suppressed", "groups"))
    return f"{number(suppressed)} of {number(groups)} groups"


def section(selection: Selection) -> Section:
    """Captures, frames and packets of each network, and skipped frames by reason."""
    captures = selection.rows("""
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
        from quality where measure = 'options_cut_share' and value > {MANY_OPTIONS_CUT}
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
        for row in captures
    ]
    tables = [
        NumberTable(
            ["network", "captures", "frames", "packets kept", "from (UTC)", "to (UTC)"], rows
        )
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
                "What could not be read or does not belong",
            )
        )
    return Section(
        anchor="quality",
        part="The data",
        title="Data quality",
        source="Captures read (table ingest_log)",
        hours="",
        caption="Every frame of a capture is either a packet or counted by the reason why not."
        + ("" if skipped else " Here every frame is a packet."),
        samples=f"{number(sum(row['packets'] for row in captures))} packets",
        tables=tables,
        open_tables=True,
        notes=[f"{row['network']}, on {row['days']} days: {row['finding']}." for row in cut],
    )
