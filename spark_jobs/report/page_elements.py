"""Elements of a page: sections, tables of numbers, Plotly figures, and numbers as text."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import exp
from pathlib import Path
from pkgutil import get_data
from typing import Any

import plotly.graph_objects as go
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from plotly.utils import PlotlyJSONEncoder

from spark_jobs.figures.statistics import CONFIDENCE, MIN_SAMPLES, MIN_USERS

NOT_MEASURED = "\N{EN DASH}"
TOO_FEW = "too few"
NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"

INTERVALS = (
    f"In brackets: {100 * CONFIDENCE:.0f} % confidence intervals, clustered by user. "
    f"{TOO_FEW.capitalize()}: fewer than {MIN_SAMPLES} samples or {MIN_USERS} users, or "
    "nearly all samples from one user."
)
"""Sentences for captions: intervals, and the condition for "too few"."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
TEXT, GRID = "#1a1a1a", "#e3e3e3"


@dataclass
class NumberTable:
    """A table: headings, and rows of texts; the first column names the row."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""

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


def number(value: float | None) -> str:
    """Return a count as text, with thousands separators."""
    return NOT_MEASURED if value is None else f"{value:,.0f}"


def percent(part: float | None, whole: float | None = 1, digits: int = 2) -> str:
    """Return a part of a whole as text, in per cent."""
    if part is None or not whole:
        return NOT_MEASURED
    return f"{100 * part / whole:.{digits}f}{NO_BREAK_SPACE}%"


def percent_tenths(share: float | None) -> str:
    """Return a share as text, to a tenth of a per cent."""
    return percent(share, digits=1)


def milliseconds(value: float | None) -> str:
    """Return a time (s) as text in ms; below 100 ms with one decimal."""
    if value is None:
        return NOT_MEASURED
    return f"{1000 * value:,.{0 if abs(value) >= 0.1 else 1}f}{NO_BREAK_SPACE}ms"


def seconds(value: float | None) -> str:
    """Return a time (s) as text with about three significant digits."""
    if value is None:
        return NOT_MEASURED
    return f"{value:,.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}{NO_BREAK_SPACE}s"


def kilobits(value: float | None) -> str:
    """Return a rate (bit/s) as text in kbit/s; below 1 Mbit/s with one decimal."""
    if value is None:
        return NOT_MEASURED
    return f"{value / 1000:,.{1 if abs(value) < 1e6 else 0}f}{NO_BREAK_SPACE}kbit/s"


ACCESS_NAMES = {"gprs": "GPRS", "edge": "EDGE", "umts": "UMTS", "lte": "LTE", "dialup": "dial-up"}
"""Access technologies in the report's spelling; others appear as the networks file spells them."""


LEGEND_PX = 64
TEMPLATE = json.dumps(
    json.loads(get_data("plotly", "package_data/templates/simple_white.json") or "")
)
"""Plotly's template for all figures, as JSON; the page holds it once.

To load it by Plotly would take half a second.
"""


def figure_html(
    figure: go.Figure | dict[str, Any], label: str, height: int, width: int | None = None
) -> Markup:
    """Return a figure as HTML.

    figure: a Plotly figure, or a dict of its data and layout, which takes a hundredth of the time
    to make. label: a description for readers who cannot see the figure. height, width: in px; with
    a width, the figure has a fixed size and no room for a legend.
    """
    parts = figure if isinstance(figure, dict) else figure.to_dict()
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
        {"data": parts["data"], "layout": parts["layout"] | common},
        cls=PlotlyJSONEncoder,
        separators=(",", ":"),
    )
    return Markup(
        '<div class="figure" role="img" aria-label="{}"><div class="plot" data-responsive="{}" '
        'style="height:{}px"></div><script type="application/json">{}</script></div>'
    ).format(label, int(width is None), height, Markup(text.replace("</", "<\\/")))


@cache
def templates() -> Environment:
    """Return the Jinja environment with the pages' templates."""
    loader = FileSystemLoader(Path(__file__).parent)
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined)


def compressed(script: str) -> str:
    """Return a script compressed by gzip, in base64, so that a page can embed it.

    Compression level 9 takes twice as long as 6 and saves a fifth of a per cent.
    """
    return b64encode(gzip.compress(script.encode(), 6, mtime=0)).decode()


def histogram_quantile(
    bins: Sequence[tuple[float, float]], width: float, share: float
) -> float | None:
    """Return the value below which `share` of a histogram's samples lie; None without samples.

    bins: (lower edge, samples), sorted. width: of a bin. The function assumes that samples are
    spread evenly within a bin.
    """
    total = sum(count for _, count in bins)
    target, below = share * total, 0.0
    for low, count in bins:
        if count and below + count >= target:
            return low + width * (target - below) / count
        below += count
    return None


LOG_BINS = 10
"""Bins per unit of the natural logarithm in marts of times: bin = floor(LOG_BINS * ln(time))."""


def log_quantile(rows: Sequence[dict[str, Any]], weight: str, share: float) -> float | None:
    """Return a quantile of a mart's rows binned by LOG_BINS; None without samples.

    It is right to a few per cent. weight: the column that counts samples. share: the share of
    samples below the quantile. Rows whose bin is null do not count.
    """
    counts: dict[int, float] = {}
    for row in rows:
        if row["bin"] is not None:
            counts[row["bin"]] = counts.get(row["bin"], 0) + row[weight]
    value = histogram_quantile(sorted(counts.items()), 1, share)
    return None if value is None else exp(value / LOG_BINS)


def group_rows(rows: Sequence[dict[str, Any]], *keys: str) -> dict[tuple, list[dict[str, Any]]]:
    """Return the rows grouped by the values of some columns."""
    groups: dict[tuple, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups
