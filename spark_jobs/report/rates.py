"""Histograms of rates, from a mart's logarithmic bins of 1 % to a linear axis in kbit/s."""

from collections.abc import Sequence
from math import ceil, exp, floor, log10

import plotly.graph_objects as go

SHOWN_BINS = 60
"""Number of bins that hold 99 % of a histogram's weight."""


def bin_rate(bin_number: int) -> float:
    """Return the middle of a mart's bin (bit/s)."""
    return exp((bin_number + 0.5) / 100)


def bin_width(rows: Sequence[dict], weight: str) -> float:
    """Return a round bin width (bit/s) so that 99 % of the weight fits into SHOWN_BINS.

    weight: a column of the rows.
    """
    total = sum(row[weight] for row in rows)
    reached, top = 0.0, 1.0
    for row in sorted(rows, key=lambda row: row["bin"]):
        reached += row[weight]
        top = bin_rate(row["bin"])
        if reached >= 0.99 * total:
            break
    rough = top / SHOWN_BINS
    unit = 10 ** floor(log10(rough))
    return next(step * unit for step in (1, 2, 5, 10) if step * unit >= rough)


def histogram(rows: Sequence[dict], weight: str, width: float) -> tuple[list[float], list[float]]:
    """Return lower edges (kbit/s) and shares (%) of a histogram that ends with a zero.

    weight: a column of the rows. width: of a bin (bit/s).
    """
    total = sum(row[weight] for row in rows)
    last = max((ceil(bin_rate(row["bin"]) / width) for row in rows), default=0)
    shares = [0.0] * (min(last, 4 * SHOWN_BINS) + 1)
    for row in rows:
        place = min(floor(bin_rate(row["bin"]) / width), len(shares) - 1)
        shares[place] += 100 * row[weight] / total if total else 0.0
    return [place * width / 1000 for place in range(len(shares))], shares


def step_line(x: Sequence[float], y: Sequence[float], name: str, colour: str) -> go.Scatter:
    """Return a histogram drawn as a step line."""
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
    """Return the rate (bit/s) below which a share of the weight lies, to a bin's 1 %."""
    total, reached = sum(row[weight] for row in rows), 0.0
    for row in sorted(rows, key=lambda row: row["bin"]):
        reached += row[weight]
        if reached >= share * total:
            return bin_rate(row["bin"])
    return None
