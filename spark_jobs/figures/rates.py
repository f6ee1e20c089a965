"""Histograms of rates on a linear axis in kbit/s."""

from collections.abc import Sequence
from math import exp, floor, log10

import numpy as np
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
RESOLUTION = (
    "Quantiles are exact where no user has more than three rates within 2 %, and elsewhere right "
    "to less than 2 %. "
)
HEADINGS = ("connections", "mean", "10th percentile", "median", "90th percentile")
"""Headings of `table_numbers`."""


def bin_rate(bin_number: int) -> float:
    """Return the middle of a mart's bin (bit/s)."""
    return exp((bin_number + 0.5) / 100)


def bin_width(samples: Sequence[dict]) -> float:
    """Return a round bin width (bit/s) so that 99 % of the weight fits into SHOWN_BINS.

    samples: rows of the mart distributions.
    """
    rest = 0.99 * sum(row["weight"] for row in samples)
    top = 1000.0 * SHOWN_BINS
    for row in sorted(samples, key=lambda row: row["highest"]):
        top = row["highest"]
        rest -= row["weight"]
        if rest <= 0:
            break
    rough = top / SHOWN_BINS
    unit = 10 ** floor(log10(rough))
    return next(step * unit for step in (1, 2, 5, 10) if step * unit >= rough)


def histogram(samples: Sequence[dict], width: float) -> tuple[list[float], list[float]]:
    """Return lower edges (kbit/s) and shares (%) of a histogram that ends with a zero.

    A row's weight is spread evenly between its smallest and largest rate.

    samples: rows of the mart distributions. width: of a bin (bit/s).
    """
    lowest, highest, weight = (
        np.array([row[name] for row in samples], np.float64)
        for name in ("lowest", "highest", "weight")
    )
    bins = min(floor(highest.max(initial=0) / width) + 1, 4 * SHOWN_BINS)
    edges = width * np.arange(bins + 1)
    spread = np.maximum(highest - lowest, 1e-9)
    below = [weight @ np.clip((edge - lowest) / spread, 0, 1) for edge in edges[:-1]]
    shares = 100 * np.diff([*below, weight.sum(), weight.sum()]) / weight.sum()
    return (edges / 1000).tolist(), shares.tolist()


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


def dashed_step(name: str, colour: str, dash: str, samples: list[dict], width: float) -> go.Scatter:
    """Return a histogram of connections drawn as a step line with a dash style."""
    trace = step_line(*histogram(samples, width), name, colour)
    trace.line.dash = dash
    return trace


def table_numbers(samples: list[dict]) -> list[str]:
    """Return the number of the mart distributions' samples, their mean and quantiles, as texts."""
    total = count(sum(row["samples"] for row in samples))
    return [total, *mean_and_quantiles(samples, KBITS, (0.1, 0.5, 0.9))]


def connection_count(samples: list[dict], measure: str) -> int:
    """Return the number of connections with a value of a measure of the mart distributions."""
    return sum(row["samples"] for row in samples if row["measure"] == measure)
