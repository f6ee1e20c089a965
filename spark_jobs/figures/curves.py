"""Distributions of quantities: numbers of the mart distributions, and lines that show them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from math import exp, floor, log10
from typing import Any, Literal

import numpy as np
from markupsafe import Markup

from schemas import Table
from spark_jobs.figures.charts import cumulative as cumulative_chart
from spark_jobs.figures.dashboard_parts import Chart, Dataset, histogram_outline, label_sql, literal
from spark_jobs.figures.dashboard_sql import KEYS, USER_GROUPS, share_of_series
from spark_jobs.figures.format import KBITS, Unit
from spark_jobs.figures.hours import Hours
from spark_jobs.figures.marts import mart
from spark_jobs.figures.names import SHOWN_BINS
from spark_jobs.figures.numbers import BINS, USERS, Numbers, Quantile, Row, Value, mean
from spark_jobs.figures.page_elements import GRID, group_rows, log_seconds_axis
from spark_jobs.figures.plots import Trace, line, plots_html
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.statistics import enough

DISTRIBUTIONS = mart("distributions")
DASHES = ("solid", "dot")
"""Dash styles of the first and the second value of a column."""
MIN_SHOWN_SHARE = 0.99
"""Minimum share of each cumulative line that a linear axis shows."""
RESOLUTION = (
    "Quantiles are exact where no user has more than three samples within 2 %, and elsewhere right "
    "to less than 2 %. "
)
COUNTED = ("passed Gi", "arrived")
"""Bytes that a rate counts."""
COUNTED_TEXT = (
    "Solid, as in the paper: bytes that passed Gi, including the first packet and bytes lost on "
    "the access side. Dotted: bytes that arrived at the mobile in the same time. "
)
QUANTILE_LABELS = {0.5: "median", 1: "maximum"}


def distribution(
    where: str,
    unit: Unit,
    levels: Sequence[float],
    counted: str = "connections",
    dimensions: Mapping[str, str] | None = None,
    total: str = "",
    more: Sequence[Value] = (),
    table: Table = DISTRIBUTIONS,
    source: str = "",
) -> Numbers:
    """Return the number, mean and quantiles of samples of the mart distributions.

    where: condition on its rows. levels: of the quantiles. counted: what a sample is, in words.
    dimensions: as of Numbers. total: SQL of the samples that the section is about, if these are
    not all. more: further values. table, source: as `mart` and `source` of Numbers, of another mart
    with such rows.
    """
    quantiles = [
        Quantile(f"quantile_{n}", QUANTILE_LABELS.get(q, f"{100 * q:.0f}th percentile"), q, unit)
        for n, q in enumerate(levels)
    ]
    average = mean("mean", "mean", "weighted_sum", unit, "weight", "samples")
    return Numbers(
        table,
        [average, *quantiles, *more],
        dimensions or {},
        where,
        {**({"total": ("", total)} if total else {}), "samples": (counted, "samples")},
        aggregates=USERS,
        source=source,
    )


def rates(measure: str, **dimensions: str) -> Numbers:
    """Return the quantiles of a rate of connections, by the bytes that it counts.

    measure: of the bytes that passed Gi. dimensions: SQL of further columns to group by.
    """
    measures = dict(zip((measure, f"{measure}_received"), COUNTED, strict=True))
    return distribution(
        f"measure in {tuple(measures)}",
        KBITS,
        (0.1, 0.5, 0.9),
        dimensions={**dimensions, "counted": label_sql("measure", measures)},
        total=f"if(measure = '{measure}', samples, 0)",
    )


@dataclass(frozen=True)
class Curves:
    """Lines of a distribution: one for each network, or each of its hours.

    x: title of the axis. unit: of the axis. counted: what a sample is, in words.
    shape: histogram; or the share of the samples below, or above, a value.
    rows, columns: columns whose values have a row or a column of plots each. dashed: column whose
    second value has dotted lines.
    width: of a histogram's bins, in the unit; 0: a round one, so that SHOWN_BINS hold 99 %.
    end: of the axis; 0: the axis shows all of a histogram, and MIN_SHOWN_SHARE of other lines.
    of_all: shares are of all samples of the network, not of those of the plot
    """

    x: str
    unit: Unit
    counted: str
    shape: Literal["histogram", "below", "above"]
    rows: str = ""
    columns: str = ""
    dashed: str = ""
    width: float = 0
    end: float = 0
    is_logarithmic: bool = False
    of_all: bool = False

    def html(
        self,
        title: str,
        selection: Selection,
        numbers: Numbers,
        by: Mapping[str, Sequence[str]],
        shown: Sequence[tuple[Hours[Row], Row]],
        totals: str,
    ) -> Markup:
        """Return the plots as HTML.

        by: columns by which the rows `shown` are grouped, beside the network and its hours, with
        their values in order; a row without them is of all values, and is called `totals`.
        """
        is_histogram = self.shape == "histogram"
        bins = numbers.bins(selection, "network", "period", *by, of_users=is_histogram)
        width = (self.width / self.unit.scale or bin_width(bins)) if is_histogram else 0
        keys = ["network", "period"] if any(hours.period for hours, _ in shown) else ["network"]
        all_samples, samples_by = group_rows(bins, *keys), group_rows(bins, *keys, *by)
        shown = [item for item in shown if enough(item[1]["samples"], item[1]["users"])]
        labels = [
            [
                value
                for value in (totals, *by[name])
                if any(row.get(name, totals) == value for _, row in shown)
            ]
            if name
            else [""]
            for name in (self.rows, self.columns)
        ]
        dashes = by[self.dashed] if self.dashed else ()
        traces: list[tuple[int, int, Trace]] = []
        ends = [self.end] * len(labels[1])
        for hours, row in shown:
            key = tuple(row[name] for name in keys)
            samples = whole = all_samples.get(key, [])
            if all(name in row for name in by):
                samples = samples_by.get((*key, *(row[name] for name in by)), [])
            x, y = self._points(samples, width)
            if self.of_all:
                part = sum(r["weight"] for r in samples) / sum(r["weight"] for r in whole)
                y = [part * share for share in y]
            row_of, column = (
                found.index(row.get(name, totals)) if name else 0
                for name, found in zip((self.rows, self.columns), labels, strict=True)
            )
            if self.shape == "below" and not self.end:
                last = x[next(n for n, share in enumerate(y) if share >= MIN_SHOWN_SHARE)]
                ends[column] = max(ends[column], 1.05 * last)
            dash, name = hours.dash or "solid", hours.name
            if dashes:
                dash, name = DASHES[dashes.index(row[self.dashed])], f"{name} {row[self.dashed]}"
            drawn = self._line(name, hours.network.colour, x, y, dash)
            traces.append((row_of, column, drawn))
        rows, columns = labels
        return plots_html(
            [[", ".join(filter(None, (row, column))) for column in columns] for row in rows],
            traces,
            [self._x_axis(end) for end in ends],
            self._y_axis(width),
            f"{title}: distributions by {' and '.join(keys)}",
            150 if len(rows) > 1 else 300,
        )

    def charts(
        self, title: str, numbers: Numbers, name: str, by: Mapping[str, Sequence[str]]
    ) -> list[Chart]:
        """Return a chart for each plot, of lines of shares below a value.

        numbers: of a mart with the local hour. name: of the dataset. by: values of each column.
        """
        keys = "".join(f', {numbers.dimensions.get(key, key)} as "{key}"' for key in by)
        scale = f"{self.unit.scale} * "
        dataset = Dataset(
            name,
            histogram_outline(
                f"{KEYS}, {USER_GROUPS}{keys}",
                ["samples"],
                f"{numbers.source or numbers.mart.name} where {numbers.where}",
                f"{scale}exp(bin / {BINS})",
                f"{scale}(exp((bin + 1) / {BINS}) - exp(bin / {BINS}))",
                "value",
            ),
            [share_of_series("samples", f"share of {self.counted}", "samples")],
            self.counted,
        )
        return [
            cumulative_chart(
                f"{title}: {', '.join(values)}",
                dataset,
                "value_below",
                f"{self.x} [{self.unit.name}]",
                f"Cumulative share of {self.counted}",
                where=" and ".join(
                    f"{key} = {literal(value)}" for key, value in zip(by, values, strict=True)
                ),
            )
            for values in product(*by.values())
        ]

    def _points(self, samples: list[dict], width: float) -> tuple[list[float], list[float]]:
        if self.shape == "histogram":
            x, y = histogram(samples, width)
        else:
            x, y = cumulative(samples)
        if self.shape == "above":
            y = [100 * (1 - share) for share in y]
        return [self.unit.scale * value for value in x], y

    def _line(self, name: str, colour: str, x: list, y: list, dash: str) -> dict[str, Any]:
        unit = self.unit.name
        hover = {
            "histogram": f"%{{x:.3~r}} {unit}: %{{y:.2f}} %",
            "below": f"%{{y:.2f}} below %{{x:.3~r}} {unit}",
            "above": f"%{{y:.1f}} % above %{{x:.3~r}} {unit}",
        }[self.shape]
        return line(name, colour, x, y, hover, dash, steps=self.shape != "below")

    def _x_axis(self, end: float) -> dict[str, Any]:
        title = f"{self.x} [{self.unit.name}]"
        if self.is_logarithmic:
            return log_seconds_axis(title)
        shown: dict[str, Any] = {"range": [0.0, end]} if end else {"rangemode": "tozero"}
        return {"title": {"text": title}, **shown, **GRID}

    def _y_axis(self, width: float) -> dict[str, Any]:
        share = f"share of {self.counted}"
        if self.shape == "below":
            return {"title": {"text": f"Cumulative {share}"}, "range": [0, 1.01], **GRID}
        if self.shape == "above":
            axis: dict[str, Any] = {
                "title": {"text": f"{share.capitalize()} above"},
                "range": [0, 101],
            }
        else:
            step = f"{width * self.unit.scale:g} {self.unit.name}"
            title = f"{share.capitalize()} per {step}"
            axis = {"title": {"text": title}, "rangemode": "tozero"}
        return {"ticksuffix": " %", **axis, **GRID}


def bin_width(samples: Sequence[dict]) -> float:
    """Return a round bin width so that 99 % of the weight fits into SHOWN_BINS.

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
    """Return lower edges and shares (%) of a histogram that ends with a zero.

    The smallest and the largest value of a row are in their bins. The row's other samples are
    spread evenly around their mean, as far as one of the two; a single one is at its value.

    samples: rows of the mart distributions. width: of a bin.
    """
    lowest, highest, weight, count, total = (
        np.array([row[name] for row in samples], np.float64)
        for name in ("lowest", "highest", "weight", "samples", "weighted_sum")
    )
    bins = min(floor(highest.max(initial=0) / width) + 1, 4 * SHOWN_BINS)
    edges = width * np.arange(bins + 1)
    one, others = weight / count, np.maximum(count - 2, 0)
    middle = np.clip((total / one - lowest - highest) / np.maximum(others, 1), lowest, highest)
    reach = np.minimum(middle - lowest, highest - middle) * (count > 3)
    points = (lowest, one), (highest, one * (count > 1))
    below = [
        sum(of_point @ (value < edge) for value, of_point in points)
        + (one * others) @ np.clip((edge - middle + reach) / np.maximum(2 * reach, 1e-9), 0, 1)
        for edge in edges[:-1]
    ]
    shares = 100 * np.diff([*below, weight.sum(), weight.sum()]) / weight.sum()
    return edges.tolist(), shares.tolist()


def cumulative(rows: Sequence[dict]) -> tuple[list[float], list[float]]:
    """Return the edges of the bins, and the share of the samples below each."""
    counts: Counter[int] = Counter()
    for row in rows:
        counts[row["bin"]] += row["samples"]
    bins = sorted(counts)
    edges = [exp(bins[0] / BINS), *(exp((n + 1) / BINS) for n in bins)]
    below = accumulate((counts[n] for n in bins), initial=0)
    return edges, [number / counts.total() for number in below]
