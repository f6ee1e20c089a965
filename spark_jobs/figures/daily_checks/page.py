"""The days that passed their checks, and those that are held back."""

from spark_jobs.figures.page_elements import NumberTable, Section
from spark_jobs.figures.selection import Selection

LAST_DAYS = 7
"""Number of days with all checks shown; held days are always shown."""


def sections(selection: Selection) -> list[Section]:
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
    return [
        Section(
            anchor="state",
            title="Daily checks",
            source="Table quality",
            hours="",
            caption="The figures below do not contain held days. docs/operations.md explains how "
            "to release a day.",
            samples=f"{held} held",
            tables=[NumberTable(["date", "network", "state", "reason"], rows)] if rows else [],
            open_tables=True,
            notes=[] if rows else ["No day has been checked. Run giscope check."],
        )
    ]
