"""Throughput by receive window (Kohlwes, Riihijärvi and Mähönen, Figs. 1 and 4 to 7)."""

from markupsafe import Markup

from spark_jobs.figures.figure import Figure, Rows, grouped
from spark_jobs.figures.format import count
from spark_jobs.figures.hours import grid_of
from spark_jobs.figures.limits_by_window.numbers import (
    MIN_LARGE_MSS,
    MIN_MEDIUM_MSS,
    MSS_COLOURS,
    PARALLEL,
    WINDOWS,
)
from spark_jobs.figures.page_elements import GRID, group_rows
from spark_jobs.figures.plots import line, plots_html
from spark_jobs.figures.selection import Selection

SYMBOLS = {"small": "circle", "medium": "square", "large": "diamond"}
"""By class of MSS."""
DASHES = dict(zip(PARALLEL, ("solid", "dot"), strict=True))
BY = {
    "mss_class": ("segment size", list(MSS_COLOURS)),
    "connections": ("other connections", PARALLEL),
    "window_segments": ("window, at least [segments]", ()),
}


def draw(_: Selection, rows: Rows) -> Markup:
    """Return a plot of the throughput by window for each network and its hours."""
    titles, places = grid_of([hours for hours, _ in rows])
    traces = []
    for hours, of_hours in grouped(rows):
        for (mss, connections), of_line in group_rows(of_hours, "mss_class", "connections").items():
            points = [row for row in of_line if row["throughput"].value is not None]
            drawn = line(
                f"{mss} segments, {connections}",
                MSS_COLOURS[mss],
                [row["window_segments"] for row in points],
                [row["throughput"].value / 1000 for row in points],
                "window of at least %{x} segments: %{y:.1f} kbit/s, %{text} connections",
                DASHES[connections],
                text=[count(row["flows"]) for row in points],
                marker={"symbol": SYMBOLS[mss], "size": 7},
                legendrank=2 * list(SYMBOLS).index(mss) + PARALLEL.index(connections),
            )
            traces += [(*places[hours.name], drawn | {"mode": "lines+markers"})] if points else []
    return plots_html(
        titles,
        traces,
        {
            "title": {"text": "Largest window [segments]"},
            "type": "log",
            "tickvals": [1 << k for k in range(0, 20, 2)],
            **GRID,
        },
        {"title": {"text": "kbit/s"}, "rangemode": "tozero", **GRID},
        "Mean throughput by window, by network, hours, segment size and parallel connections",
        180,
    )


sections = Figure(
    "windows",
    "Throughput by window, segment size and parallel connections",
    "Kohlwes, Riihijärvi and Mähönen (the UMTS study), Figs. 5 to 7",
    "Mean throughput of users during their connections above 100 KiB of distinct payload, by the "
    "mobile's largest window in segments. One connection: the user has no other at the same time. "
    "Parallel connections: the user has others, whose bytes count, too. Segments are small below "
    f"{MIN_MEDIUM_MSS} B, large from {MIN_LARGE_MSS} B. If a line is level, the window is large "
    "enough.",
    "",
    WINDOWS,
    by=BY,
    by_hours=True,
    counted="connections above 100 KiB",
    drawn=draw,
    notes=[
        "The UMTS study (Figs. 5 to 7; MSS of 548, 996 and 1360 B, windows of 2 to 64 segments, "
        "one or two connections): large windows do no harm. Two connections are faster than one. "
        "Larger segments are faster, too, but less clearly."
    ],
).sections
