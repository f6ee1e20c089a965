"""The days that passed their checks, and those that are held back or without captures."""

import datetime

from spark_jobs.figures.daily_checks.numbers import DAYS_SQL
from spark_jobs.figures.page_elements import NumberTable, Section
from spark_jobs.figures.selection import Selection

LAST_DAYS = 7
"""Number of days with all checks shown; other days are shown if they were not just published."""


def sections(selection: Selection) -> list[Section]:
    """Return the last days, newest first, and every day that was not just published."""
    names = ", ".join(f"'{network.name}'" for network in selection.networks)
    days = selection.rows(f"""
        with listed as (
            select * from ({DAYS_SQL}) where network in ({names})
            qualify dense_rank() over (order by date desc) <= {LAST_DAYS} or state <> 'published'
        ), runs as (
            select *, if(state = 'no captures', date - row_number() over (
                partition by network, state order by date)::int, date) as run
            from listed
        )
        select network, state, reason, held, min(date) as first, max(date) as last
        from runs group by network, state, reason, held, run
        order by last desc, network
    """)
    rows = [
        [_dates(row["first"], row["last"]), row["network"], row["state"], row["reason"]]
        for row in days
    ]
    checked = any(row["state"] not in ("not checked", "no captures") for row in days)
    return [
        Section(
            anchor="state",
            title="Daily checks",
            source="Table quality",
            hours="",
            caption="Each day's state, and whether the figures on this page contain it. A held day "
            "failed its checks: if it has figures, they were made before the checks. "
            "docs/operations.md explains how to release a day.",
            samples=f"{sum(row['held'] for row in days)} held",
            tables=[NumberTable(["date", "network", "state", "reason"], rows)] if rows else [],
            open_tables=True,
            notes=[] if checked else ["No day has been checked. Run giscope check."],
        )
    ]


def _dates(first: datetime.date, last: datetime.date) -> str:
    """Return a day, or the first and the last of several days in a row without captures."""
    return f"{first}" if first == last else f"{first} to {last}"
