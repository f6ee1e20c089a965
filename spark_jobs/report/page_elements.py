"""What the page is made of: sections, tables of numbers, Plotly figures."""

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

from spark_jobs.estimators.by_user import CONFIDENCE, FEWEST_SAMPLES, FEWEST_USERS

NOT_MEASURED = "\N{EN DASH}"
TOO_FEW = "too few"
NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"

INTERVALS = (
    f"In brackets: {100 * CONFIDENCE:.0f} % confidence intervals, clustered by user; "
    f"{TOO_FEW}: fewer than {FEWEST_SAMPLES} samples or {FEWEST_USERS} users, or nearly all of one "
    "user."
)

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
TEXT, GRID = "#1a1a1a", "#e3e3e3"


@dataclass
class NumberTable:
    """headings, and rows of texts; the first column names the row."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""

    def is_number(self, column: int) -> bool:
        """Whether a column holds numbers, to be aligned right."""
        return all(
            row[column].lstrip("+-\N{MINUS SIGN}")[:1].isdigit()
            or row[column] in (NOT_MEASURED, TOO_FEW)
            for row in self.rows
        )


@dataclass
class Section:
    """One table or figure: its place in the paper, what it shows, the drawing and its numbers."""

    anchor: str
    title: str
    source: str
    caption: str
    samples: str
    figure: Markup = field(default_factory=Markup)
    tables: Sequence[NumberTable] = ()
    collapsed_tables: Sequence[NumberTable] = ()
    """Shown on demand, each under its caption."""
    open_tables: bool = False
    notes: Sequence[str] = ()
    hours: str = "all hours together"
    """Which hours are in it, and whether apart."""
    part: str = ""
    """The heading of the part of the page that begins with it."""


def unless_empty(section: Section, there: bool) -> Section:
    """The section; or, where there is nothing to show, one line that says so."""
    if there:
        return section
    nothing = ["Nothing of this was measured in these networks and days."]
    return replace(section, figure=Markup(), tables=(), collapsed_tables=(), notes=nothing)


def number(value: float | None) -> str:
    """A count with thousands separators."""
    return NOT_MEASURED if value is None else f"{value:,.0f}"


def percent(part: float | None, whole: float | None = 1, digits: int = 2) -> str:
    """A share of a whole."""
    if part is None or not whole:
        return NOT_MEASURED
    return f"{100 * part / whole:.{digits}f}{NO_BREAK_SPACE}%"


def percent_tenths(share: float | None) -> str:
    """A share, to a tenth of a per cent."""
    return percent(share, digits=1)


def milliseconds(value: float | None) -> str:
    """A time given in s, in ms; below 100 ms with a decimal."""
    if value is None:
        return NOT_MEASURED
    return f"{1000 * value:,.{0 if abs(value) >= 0.1 else 1}f}{NO_BREAK_SPACE}ms"


def seconds(value: float | None) -> str:
    """A time given in s, to three digits or so."""
    if value is None:
        return NOT_MEASURED
    return f"{value:,.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}{NO_BREAK_SPACE}s"


def kilobits(value: float | None) -> str:
    """A rate given in bit/s, in kbit/s; from 1 Mbit/s in whole ones."""
    if value is None:
        return NOT_MEASURED
    return f"{value / 1000:,.{1 if abs(value) < 1e6 else 0}f}{NO_BREAK_SPACE}kbit/s"


ACCESS = {"gprs": "GPRS", "edge": "EDGE", "umts": "UMTS", "lte": "LTE", "dialup": "dial-up"}
"""Access technologies as they are written; others as they are named."""


LEGEND_PX = 64
TEMPLATE = json.dumps(
    json.loads(get_data("plotly", "package_data/templates/simple_white.json") or "")
)
"""What all figures have in common; the page has it once. Plotly itself would take half a second to
read it."""


def figure_html(
    figure: go.Figure | dict[str, Any], label: str, height: int, width: int | None = None
) -> Markup:
    """A figure as HTML; `label` describes it to those who cannot see it. Without a legend where a
    width is given. figure: Plotly's, or the data and layout that are written for one, which take a
    hundredth of the time to make."""
    made = figure if isinstance(figure, dict) else figure.to_dict()
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
        {"data": made["data"], "layout": made["layout"] | common},
        cls=PlotlyJSONEncoder,
        separators=(",", ":"),
    )
    return Markup(
        '<div class="figure" role="img" aria-label="{}"><div class="plot" data-responsive="{}" '
        'style="height:{}px"></div><script type="application/json">{}</script></div>'
    ).format(label, int(width is None), height, Markup(text.replace("</", "<\\/")))


@cache
def templates() -> Environment:
    """The pages' templates."""
    here = FileSystemLoader(Path(__file__).parent)
    return Environment(loader=here, autoescape=True, undefined=StrictUndefined)


def compressed(script: str) -> str:
    """A script as text that a page can carry: gzip, base64. The highest level of compression takes
    twice as long for a fifth of a per cent."""
    return b64encode(gzip.compress(script.encode(), 6, mtime=0)).decode()


def quantile(bins: Sequence[tuple[float, float]], width: float, share: float) -> float | None:
    """The value below which `share` of a histogram's samples lie, to a bin's width.

    bins: (lower edge, samples), sorted; within a bin samples are taken as spread evenly.
    """
    total = sum(count for _, count in bins)
    wanted, seen = share * total, 0.0
    for low, count in bins:
        if count and seen + count >= wanted:
            return low + width * (wanted - seen) / count
        seen += count
    return None


LOG_BINS = 10
"""A bin of the marts of times: so many times the natural logarithm, rounded down."""


def log_quantile(rows: Sequence[dict[str, Any]], weight: str, share: float) -> float | None:
    """The same of a mart's rows with LOG_BINS in the column bin, to a few per cent."""
    counts: dict[int, float] = {}
    for row in rows:
        if row["bin"] is not None:
            counts[row["bin"]] = counts.get(row["bin"], 0) + row[weight]
    found = quantile(sorted(counts.items()), 1, share)
    return None if found is None else exp(found / LOG_BINS)


def group(rows: Sequence[dict[str, Any]], *keys: str) -> dict[tuple, list[dict[str, Any]]]:
    """Rows by the values of some columns."""
    groups: dict[tuple, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups
