"""Pages: load time, size and connections, at peak and off-peak.

Source: Kohlwes, Riihijärvi and Mähönen, Fig. 4.
"""

import plotly.graph_objects as go

from spark_jobs.figures.format import count
from spark_jobs.figures.hours import split_by_hours
from spark_jobs.figures.page_elements import (
    NumberTable,
    Section,
    error_bars,
    figure_html,
    unless_empty,
)
from spark_jobs.figures.page_load_time.numbers import NUMBERS, PARALLEL
from spark_jobs.figures.selection import Selection

PATTERNS = {"peak": "", "off_peak": "/", "other": "."}
"""Patterns of the bars by period; colours stand for networks."""


def sections(selection: Selection) -> list[Section]:
    """Return the load times of pages by hours, and by the connections that they use at once."""
    totals = split_by_hours(selection, NUMBERS.rows(selection, "network", "period"))
    by_connections = split_by_hours(
        selection, NUMBERS.rows(selection, "network", "period", "parallel_connections")
    )
    figure = go.Figure()
    for hours in by_connections:
        shown = {
            row["parallel_connections"]: row["load_time"]
            for row in hours.rows
            if row["load_time"].value is not None
        }
        figure.add_trace(
            go.Bar(
                x=list(shown),
                y=[estimate.value for estimate in shown.values()],
                name=hours.name,
                marker={
                    "color": hours.network.colour,
                    "pattern": {"shape": PATTERNS[hours.period]},
                },
                error_y=error_bars(list(shown.values())),
                hovertemplate="%{x} connections: %{y:.2f} s<extra>" + hours.name + "</extra>",
            )
        )
    figure.update_xaxes(
        title_text="Connections of a page at once",
        type="category",
        categoryorder="array",
        categoryarray=list(PARALLEL.values()),
    )
    figure.update_yaxes(title_text="Mean load time [s]", rangemode="tozero")
    headings = ["network", "hours", "connections at once", "pages", *NUMBERS.labels]
    rows = [
        [
            hours.network.name,
            hours.label,
            row.get("parallel_connections", "all"),
            count(row["pages"]),
            *row.texts,
        ]
        for group in (totals, by_connections)
        for hours in group
        for row in hours.rows
    ]
    section = Section(
        anchor="pages",
        title="Pages",
        source="Kohlwes, Riihijärvi and Mähönen (the UMTS study), Fig. 4; Smith et al., 2001",
        hours="peak and off-peak separately",
        caption="A page is a burst of a user's connections after more than a second of rest. Load "
        "time: from the first SYN, request or data to the ACK of the last data. Pages that use "
        "more connections are also larger, so the bars do not show what more connections would "
        "change. kB: 1,000 B.",
        samples=f"{count(sum(row['pages'] for hours in totals for row in hours.rows))} pages",
        figure=figure_html(
            figure, "Mean load time of pages by network, hours and connections", 400
        ),
        tables=[NumberTable(headings, rows)],
    )
    return [unless_empty(section, bool(totals))]
