"""Throughput by receive window (Kohlwes, Riihijärvi and Mähönen, Figs. 1 and 4 to 7)."""

from typing import Any

from markupsafe import Markup

from spark_jobs.figures.format import count
from spark_jobs.figures.hours import Grid, Hours, split_by_hours
from spark_jobs.figures.limits_by_window.numbers import (
    MIN_LARGE_MSS,
    MIN_MEDIUM_MSS,
    MSS_COLOURS,
    WINDOWS,
)
from spark_jobs.figures.numbers import Row
from spark_jobs.figures.page_elements import (
    NumberTable,
    Section,
    figure_html,
    group_rows,
    unless_empty,
)
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.statistics import MIN_SAMPLES
from spark_jobs.figures.subplots import GRID

PAPER = (
    "The UMTS study (Figs. 5 to 7; MSS of 548, 996 and 1360 B, windows of 2 to 64 segments, one "
    "or two connections): large windows do no harm. Two connections are faster than one. Larger "
    "segments are faster, too, but less clearly."
)
SYMBOLS = {"small": "circle", "medium": "square", "large": "diamond"}
"""By class of MSS."""
PARALLEL = {False: ("one connection", "solid"), True: ("parallel connections", "dot")}
"""By presence of other connections of the user at the same time: label and dash style."""


def sections(selection: Selection) -> list[Section]:
    """Return the throughput by window."""
    keys = ("network", "period", "mss_class", "has_parallel", "window_segments")
    rows = [row for row in WINDOWS.rows(selection, *keys) if row["flows"]]
    by_hours = split_by_hours(selection, rows)
    section = Section(
        anchor="windows",
        title="Throughput by window, segment size and parallel connections",
        source="Kohlwes, Riihijärvi and Mähönen (the UMTS study), Figs. 5 to 7",
        hours="peak and off-peak separately",
        caption="Mean throughput of users during their connections above 100 KiB of distinct "
        "payload, by the mobile's largest window in segments. One connection: the user has no "
        "other at the same time. Parallel connections: the user has others, whose bytes count, "
        f"too. Segments are small below {MIN_MEDIUM_MSS} B, large from {MIN_LARGE_MSS} B. If a "
        "line is level, the window is large enough. A point has at least "
        f"{MIN_SAMPLES} connections.",
        samples=f"{count(sum(row['flows'] for row in rows))} connections above 100 KiB",
        figure=_windows_figure(by_hours),
        collapsed_tables=[_window_table(by_hours)],
        notes=[PAPER],
    )
    return [unless_empty(section, bool(by_hours))]


def _windows_figure(by_hours: list[Hours[Row]]) -> Markup:
    if not by_hours:
        return Markup()
    grid = Grid.of_hours(by_hours, 0.06)
    traces: list[dict[str, Any]] = []
    in_legend = set()
    for hours in by_hours:
        for (mss, has_parallel), members in group_rows(
            hours.rows, "mss_class", "has_parallel"
        ).items():
            points = [row for row in members if row["throughput"].value is not None]
            if not points:
                continue
            name = f"{mss} segments, {PARALLEL[has_parallel][0]}"
            colour = MSS_COLOURS[mss]
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "x": [row["window_segments"] for row in points],
                    "y": [row["throughput"].value / 1000 for row in points],
                    "text": [count(row["flows"]) for row in points],
                    "name": name,
                    "legendgroup": name,
                    "legendrank": 2 * list(SYMBOLS).index(mss) + has_parallel,
                    "showlegend": name not in in_legend,
                    "line": {"color": colour, "dash": PARALLEL[has_parallel][1], "width": 1.6},
                    "marker": {"symbol": SYMBOLS[mss], "size": 7, "color": colour},
                    "hovertemplate": "window of at least %{x} segments: %{y:.1f} kbit/s, %{text} "
                    "connections<extra>" + name + "</extra>",
                    **grid.axes(hours),
                }
            )
            in_legend.add(name)
    grid.set_axes(
        {
            "title": {"text": "Largest window [segments]"},
            "type": "log",
            "tickvals": [1 << k for k in range(0, 20, 2)],
            "showgrid": True,
            "gridcolor": GRID,
        },
        {"title": {"text": "kbit/s"}, "rangemode": "tozero", "showgrid": True, "gridcolor": GRID},
    )
    return figure_html(
        {"data": traces, "layout": grid.plots.layout},
        "Mean throughput by window, by network, hours, segment size and parallel connections",
        130 + 220 * len(grid.names),
    )


def _window_table(by_hours: list[Hours[Row]]) -> NumberTable:
    return NumberTable(
        [
            "network",
            "hours",
            "segment size",
            "other connections",
            "window, at least [segments]",
            "connections above 100 KiB",
            *WINDOWS.labels,
        ],
        [
            [
                hours.network.name,
                hours.label,
                row["mss_class"],
                PARALLEL[row["has_parallel"]][0],
                count(row["window_segments"]),
                count(row["flows"]),
                *row.texts,
            ]
            for hours in by_hours
            for row in hours.rows
        ],
        "Numbers of each point",
    )
