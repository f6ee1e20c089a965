"""Histograms of rates on a linear axis in kbit/s."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import exp, floor, log10
from typing import Any

import numpy as np

from spark_jobs.figures.format import KBITS, count
from spark_jobs.figures.names import SHOWN_BINS
from spark_jobs.figures.page_elements import NumberTable, Section, figure_html, group_rows
from spark_jobs.figures.samples import are_enough, distributions, mean_and_quantiles
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.subplots import subplots

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
"""Headings of `_numbers`."""


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


def step_line(
    x: Sequence[float], y: Sequence[float], name: str, colour: str, dash: str = "solid"
) -> dict[str, Any]:
    """Return a histogram drawn as a step line."""
    return {
        "type": "scatter",
        "x": x,
        "y": y,
        "mode": "lines",
        "name": name,
        "legendgroup": name,
        "line": {"shape": "hv", "color": colour, "dash": dash, "width": 1.8},
        "hovertemplate": "%{x:.1f} kbit/s: %{y:.1f} %<extra>" + name + "</extra>",
    }


def rate_section(
    section: Section, selection: Selection, measure: str, axis: str, levels: Mapping[str, str]
) -> Section:
    """Return a section with the histograms and the numbers of a rate of connections.

    There is a plot for each level, with a line for each network and counted bytes.

    section: its texts. measure: of the mart distributions, of bytes that passed Gi. axis: title.
    levels: labels of the measure's categories, from the uppermost plot; the label may be empty.
    """
    rows = distributions(selection, measure, f"{measure}_received")
    samples = group_rows(rows, "category", "network", "measure")
    found = {row["category"] for row in rows}
    shown = [level for level in levels if level in found] or list(levels)[-1:]
    width = bin_width(rows)
    plots = subplots([[levels[level]] for level in shown], (0, 0.09))
    traces: list[dict[str, Any]] = []
    table = []
    for place, level in enumerate(shown):
        for network, (counted, (words, dash)) in product(selection.networks, COUNTED.items()):
            name = measure if counted == "passed" else f"{measure}_received"
            of_users = samples.get((level, network.name, name), [])
            if of_users:
                table.append([levels[level], network.name, words, *_numbers(of_users)])
            if are_enough(of_users):
                line = f"{network.name} {words}"
                trace = step_line(*histogram(of_users, width), line, network.colour, dash)
                in_legend = line not in {other["name"] for other in traces}
                traces.append({**trace, "showlegend": in_legend, **plots.axes(place, 0)})
        is_last = place == len(shown) - 1
        x_axis: dict[str, Any] = {"title": {"text": axis}} if is_last else {"showticklabels": False}
        y_axis: dict[str, Any] = {"ticksuffix": " %", "rangemode": "tozero"}
        if place == len(shown) // 2:
            y_axis["title"] = {"text": f"Share of connections per {width / 1000:g} kbit/s"}
        if place:
            x_axis["matches"] = "x"
        plots.set_axes(place, 0, {"rangemode": "tozero", **x_axis}, y_axis)
    headings = ["background", "network", "counted", *HEADINGS]
    if not any(levels.values()):
        headings, table = headings[1:], [row[1:] for row in table]
    connections = sum(row["samples"] for row in rows if row["measure"] == measure)
    return replace(
        section,
        caption=section.caption + LINES + RESOLUTION,
        samples=f"{count(connections)} connections",
        figure=figure_html(
            {"data": traces, "layout": plots.layout},
            f"{section.title}: histograms by network",
            max(400, 120 + 190 * len(shown)),
        ),
        tables=[NumberTable(headings, table)],
    )


def _numbers(samples: list[dict]) -> list[str]:
    """Return the number of the mart distributions' samples, their mean and quantiles, as texts."""
    total = count(sum(row["samples"] for row in samples))
    return [total, *mean_and_quantiles(samples, KBITS, (0.1, 0.5, 0.9))]
