"""Elements of a page: sections, tables of numbers, and Plotly figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pkgutil import get_data
from typing import Any, TypeVar

from markupsafe import Markup
from plotly.utils import PlotlyJSONEncoder

from spark_jobs.figures.format import NOT_MEASURED, TOO_FEW
from spark_jobs.figures.statistics import Estimate

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
TEXT = "#1a1a1a"
GRID = {"showgrid": True, "gridcolor": "#eeeeee"}


@dataclass
class NumberTable:
    """A table: headings, and rows of texts; the first column names the row."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""

    @property
    def has_intervals(self) -> bool:
        """Return whether a text is a value with an interval, or one of too few samples."""
        return any("…" in text or text == TOO_FEW for row in self.rows for text in row)

    def is_numeric(self, column: int) -> bool:
        """Return whether a column holds numbers and is therefore aligned right."""
        return all(
            row[column].lstrip("+-\N{MINUS SIGN}")[:1].isdigit()
            or row[column] in (NOT_MEASURED, TOO_FEW)
            for row in self.rows
        )


@dataclass
class Section:
    """One table or figure with its title, its source in the papers, its caption and its numbers."""

    anchor: str
    title: str
    source: str
    caption: str
    samples: str
    figure: Markup = field(default_factory=Markup)
    tables: Sequence[NumberTable] = ()
    collapsed_tables: Sequence[NumberTable] = ()
    """Tables that stay closed until the reader opens them, each under its caption."""
    open_tables: bool = False
    """`tables` are open from the start."""
    notes: Sequence[str] = ()
    hours: str = "all hours together"
    """Hours that the section covers, and whether it shows them separately."""
    part_heading: str = ""
    """Heading of the part of the page that begins with this section; empty: none begins."""


def unless_empty(section: Section, has_data: bool) -> Section:
    """Return the section, or without data a copy with one note instead of figure and tables."""
    if has_data:
        return section
    no_data = ["No data for this section in these networks and days."]
    return replace(section, figure=Markup(), tables=(), collapsed_tables=(), notes=no_data)


LEGEND_PX = 64
TEMPLATE = json.dumps(
    json.loads(get_data("plotly", "package_data/templates/simple_white.json") or "")
)
"""Plotly's template for all figures, as JSON; the page holds it once.

To load it by Plotly would take half a second.
"""


def figure_html(
    figure: dict[str, Any], label: str, height: int, width: int | None = None
) -> Markup:
    """Return a figure as HTML.

    figure: data and layout, as of a Plotly figure. label: a description for readers who cannot see
    the figure. height, width: in px; with a width, the figure has a fixed size and no room for a
    legend.
    """
    common = {
        "font": {"family": FONT, "size": 13, "color": TEXT},
        "height": height,
        "width": width,
        "margin": {"l": 64, "r": 16, "t": LEGEND_PX, "b": 56}
        if width is None
        else {"l": 4, "r": 4, "t": 4, "b": 4},
        "legend": {
            "orientation": "h",
            "xref": "container",
            "yref": "container",
            "x": 0,
            "y": 1,
            "xanchor": "left",
            "yanchor": "top",
            "traceorder": "normal",
        },
        "hovermode": "closest",
        "hoverlabel": {"font": {"family": FONT}},
    }
    text = json.dumps(
        _rounded(figure | {"layout": figure["layout"] | common}),
        cls=PlotlyJSONEncoder,
        separators=(",", ":"),
    )
    return Markup(
        '<div class="figure" role="img" aria-label="{}"><div class="plot" data-responsive="{}" '
        'style="height:{}px"></div><script type="application/json">{}</script></div>'
    ).format(label, int(width is None), height, Markup(text.replace("</", "<\\/")))


def _rounded(value: Any) -> Any:
    """Return a figure's data with eight significant digits.

    The last digits of sums depend on the order in which threads add them.
    """
    if isinstance(value, float):
        return float(f"{value:.8g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value


def share_bars(
    names: Sequence[str], parts: Mapping[str, tuple[str, Sequence[float]]], title: str, label: str
) -> Markup:
    """Return a bar for each name, divided into parts.

    parts: by label: colour, and share of each name's whole (0 to 1). title: of the axis.
    label: as in `figure_html`.
    """
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "y": list(names),
            "x": [100 * share for share in shares],
            "name": part,
            "marker": {"color": colour},
            "hovertemplate": "%{y}: %{x:.1f} %<extra>" + part + "</extra>",
        }
        for part, (colour, shares) in parts.items()
    ]
    layout = {
        "barmode": "stack",
        "xaxis": {"title": {"text": f"{title} [%]"}, "range": [0, 100]},
        "yaxis": {"autorange": "reversed", "automargin": True},
    }
    return figure_html({"data": traces, "layout": layout}, label, 150 + 32 * len(names))


def error_bars(estimates: Sequence[Estimate], unit: float = 1.0) -> dict:
    """Return Plotly's error bars for the intervals; unit: of the axis, in the estimates' unit."""
    return {
        "type": "data",
        "symmetric": False,
        "thickness": 1,
        "width": 3,
        "array": [((e.high or 0) - (e.value or 0)) / unit for e in estimates],
        "arrayminus": [((e.value or 0) - (e.low or 0)) / unit for e in estimates],
    }


TICKS_S = [step * 10**power for power in range(-3, 3) for step in (1, 2, 5)]


def log_seconds_axis(title: str) -> dict[str, Any]:
    """Return a logarithmic axis of times."""
    return {
        "type": "log",
        "title": {"text": title},
        "tickvals": TICKS_S,
        **GRID,
    }


RowT = TypeVar("RowT", bound=Mapping[str, Any])


def group_rows(rows: Sequence[RowT], *keys: str) -> dict[tuple, list[RowT]]:
    """Return the rows grouped by the values of some columns."""
    groups: dict[tuple, list[RowT]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups
