"""Histograms of rates from the marts' bins of 1 %, redrawn on an axis in kbit/s."""

from collections.abc import Sequence
from math import ceil, exp, floor, log10

import plotly.graph_objects as go

SHOWN_BINS = 60


def rate_of(bin_number: int) -> float:
    """The middle of a mart's bin, bit/s."""
    return exp((bin_number + 0.5) / 100)


def bin_width(rows: Sequence[dict], weight: str) -> float:
    """A round width (bit/s) so that almost all of the weight fits into SHOWN_BINS."""
    total = sum(row[weight] for row in rows)
    seen, top = 0.0, 1.0
    for row in sorted(rows, key=lambda row: row["bin"]):
        seen += row[weight]
        top = rate_of(row["bin"])
        if seen >= 0.99 * total:
            break
    rough = top / SHOWN_BINS
    unit = 10 ** floor(log10(rough))
    return next(step * unit for step in (1, 2, 5, 10) if step * unit >= rough)


def histogram(rows: Sequence[dict], weight: str, width: float) -> tuple[list[float], list[float]]:
    """(lower edges in kbit/s, shares in %), as steps with a closing zero."""
    total = sum(row[weight] for row in rows)
    last = max((ceil(rate_of(row["bin"]) / width) for row in rows), default=0)
    shares = [0.0] * (min(last, 4 * SHOWN_BINS) + 1)
    for row in rows:
        place = min(floor(rate_of(row["bin"]) / width), len(shares) - 1)
        shares[place] += 100 * row[weight] / total if total else 0.0
    return [place * width / 1000 for place in range(len(shares))], shares


def steps(x: Sequence[float], y: Sequence[float], name: str, colour: str) -> go.Scatter:
    """A histogram as a line."""
    return go.Scatter(
        x=x,
        y=y,
        mode="lines",
        name=name,
        legendgroup=name,
        line={"shape": "hv", "color": colour, "width": 1.8},
        hovertemplate="%{x:.1f} kbit/s: %{y:.1f} %<extra>" + name + "</extra>",
    )


def quantile_rate(rows: Sequence[dict], weight: str, share: float) -> float | None:
    """The rate (bit/s) below which a share of the weight lies, to a bin's 1 %."""
    total, seen = sum(row[weight] for row in rows), 0.0
    for row in sorted(rows, key=lambda row: row["bin"]):
        seen += row[weight]
        if seen >= share * total:
            return rate_of(row["bin"])
    return None
