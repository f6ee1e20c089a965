"""Pairs of TCP options: SACK and timestamps, by which retransmissions and RTOs are shown."""

from collections.abc import Callable
from typing import Any

from markupsafe import Markup

from spark_jobs.figures.hours import Grid, Hours
from spark_jobs.figures.names import MUTED_COLOURS
from spark_jobs.figures.page_elements import figure_html
from spark_jobs.figures.subplots import GRID

PAIRS = ("neither", "SACK", "timestamps", "SACK and timestamps")
PAIR_COLOURS = dict(zip(PAIRS, MUTED_COLOURS, strict=False))
PAIR = """case
        when sack is null or timestamps is null then null
        when sack and timestamps then 'SACK and timestamps'
        when sack then 'SACK'
        when timestamps then 'timestamps'
        else 'neither'
    end"""
"""SQL of the pair of a mart's row; null if the use of an option is unknown."""
MakeTraces = Callable[[Hours, dict[str, str], bool], list[dict[str, Any]]]


def grid_figure(
    by_hours: list[Hours], make_traces: MakeTraces, x: dict[str, Any], label: str
) -> Markup:
    """Return a plot for each network and period, with a row for each pair of options."""
    if not by_hours:
        return Markup()
    grid = Grid.of_hours(by_hours, 0.16)
    traces = [
        trace
        for n, hours in enumerate(by_hours)
        for trace in make_traces(hours, grid.axes(hours), n == 0)
    ]
    grid.set_axes(
        x | {"showgrid": True, "gridcolor": GRID},
        {
            "title": {},
            "type": "category",
            "categoryorder": "array",
            "categoryarray": PAIRS,
            "range": [len(PAIRS) - 0.5, -0.5],
            "automargin": True,
        },
    )
    layout = grid.plots.layout | {"barmode": "stack"}
    return figure_html({"data": traces, "layout": layout}, label, 130 + 150 * len(grid.names))
