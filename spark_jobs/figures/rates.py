"""Histograms of rates, from a mart's logarithmic bins of 1 % to a linear axis in kbit/s."""

from collections.abc import Sequence
from math import ceil, exp, floor, log10

import plotly.graph_objects as go

from spark_jobs.figures.format import KBITS, count
from spark_jobs.figures.names import SHOWN_BINS
from spark_jobs.figures.samples import mean_and_quantiles

COUNTED = {"passed": ("passed Gi", "solid"), "arrived": ("arrived", "dot")}
"""By counted bytes: label and dash style."""
LINES = (
    "Solid, as in the paper: bytes that passed Gi, including the first packet and bytes lost on "
    "the access side. Dotted: bytes that arrived at the mobile in the same time. "
)
HEADINGS = ("connections", "mean", "10th percentile", "median", "90th percentile")
"""Headings of `table_numbers`."""


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


def dashed_step(name: str, colour: str, dash: str, rows: list[dict], width: float) -> go.Scatter:
    """Return a histogram of connections drawn as a step line with a dash style."""
    trace = step_line(*histogram(rows, "flows", width), name, colour)
    trace.line.dash = dash
    return trace


def table_numbers(samples: list[dict]) -> list[str]:
    """Return the number of the mart distributions' samples, their mean and quantiles, as texts."""
    total = count(sum(row["samples"] for row in samples))
    return [total, *mean_and_quantiles(samples, KBITS, (0.1, 0.5, 0.9))]


def connection_count(rows: list[dict]) -> int:
    """Return the number of connections; each is in the rows of passed and of arrived bytes."""
    return sum(row["flows"] for row in rows if row["counted"] == "passed")
