"""What the numbers rest on: captures read, and what could not be."""

from schemas import SKIP_REASONS
from spark_jobs.report.parts import Section, TableOfNumbers, number
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
        tables=[TableOfNumbers(["date", "network", "state", "why"], rows)] if rows else [],
        open_tables=True,
        notes=[] if rows else ["No day has been checked: see giscope check."],
    )


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
        TableOfNumbers(
            ["network", "captures", "frames", "packets kept", "from (UTC)", "to (UTC)"], rows
        )
    ]
    if skipped:
        tables.append(
            TableOfNumbers(
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
    )
