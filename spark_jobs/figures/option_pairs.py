"""Pairs of TCP options: SACK and timestamps, by which retransmissions and RTOs are shown."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from spark_jobs.figures.hours import Hours, grid_of
from spark_jobs.figures.names import MUTED_COLOURS
from spark_jobs.figures.page_elements import GRID
from spark_jobs.figures.plots import Trace, plots_html

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
BY_PAIR = {"options": ("options", PAIRS)}
"""The pairs as the columns of a Figure."""


def grid_figure(traces: Sequence[tuple[Hours, Trace]], x: dict[str, Any], label: str) -> Markup:
    """Return a plot for each network and period, with a row for each pair of options."""
    titles, places = grid_of([hours for hours, _ in traces])
    return plots_html(
        titles,
        [(*places[hours.name], trace) for hours, trace in traces],
        x | GRID,
        {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": PAIRS,
            "range": [len(PAIRS) - 0.5, -0.5],
            "automargin": True,
        },
        label,
        120,
        gap=0.16,
        layout={"barmode": "stack"},
    )
