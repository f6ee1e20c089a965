"""Figures of numbers: one specification, drawn on the report's page and on a dashboard.

A folder's `figure.py` has FIGURE, or FIGURES. A folder may have a `page.py` with sections that only
the report has, and a `dashboard.py` with further charts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from markupsafe import Markup

from spark_jobs.figures import charts
from spark_jobs.figures.curves import Curves
from spark_jobs.figures.dashboard_parts import Chart
from spark_jobs.figures.dashboard_sql import parts_dataset, rows_dataset, sum_of_series
from spark_jobs.figures.format import NOT_MEASURED, PERCENT, count
from spark_jobs.figures.hours import Hours, split_by_hours
from spark_jobs.figures.numbers import Numbers, Ratio, Row
from spark_jobs.figures.page_elements import (
    NumberTable,
    Section,
    error_bars,
    figure_html,
    share_bars,
    unless_empty,
)
from spark_jobs.figures.selection import Selection

PATTERNS = ("", "/", ".")
"""Patterns of bars that have the same colour."""


Rows = list[tuple[Hours[Row], Row]]
"""Rows of numbers, each with its network or the hours of it."""


@dataclass(frozen=True)
class Shares:
    """A bar for each network and hours, divided into parts.

    title: of the axis.
    colours: by part. The parts are ratios, which add up to 1, or values of a column.
    by: this column, one of the figure's `by`; empty: the parts are ratios.
    amount: name of the count that is divided; empty: what the section is about.
    """

    title: str
    colours: Mapping[str, str]
    by: str = ""
    amount: str = ""


@dataclass(frozen=True)
class Bars:
    """A bar for each value of a column, network and ratio.

    x: the column, one of the figure's `by`. title, x_title: of the axes. ratios: names of those
    that are drawn.
    """

    x: str
    x_title: str
    title: str
    ratios: Sequence[str]


@dataclass(frozen=True)
class Figure:
    """A section of the report, and charts of a dashboard, about some numbers.

    tab: key of the dashboard's tab; empty: only the report has the figure
    by: columns by which the rows are grouped, beside the network: by name, heading and values in
    order (none: from the lowest)
    by_hours: whether there are rows of peak and off-peak, and not of all hours together
    totals: text in the place of a value in the row of all values of the columns `by`; empty: there
    is no such row
    in_columns: whether the table has a row for each ratio, and a column for each network
    paper: values of the paper by ratio, by the name of the column or row
    paper_places: decimals of these values
    more: further numbers, each as a table with its caption
    counted: what the section is about, in words; the first of the numbers' counts says how many
    drawn: what the section and the dashboard draw; a function draws rows for the section alone
    needs: name of a ratio; if no row has a value of it, the section has a note instead of numbers.
    Without `needs`, it has the note if it is about nothing
    hourly: names of the ratios that the dashboard also draws by local hour
    notes: what the paper says, in words
    part_heading: heading of the part of the report that begins with this section
    """

    anchor: str
    title: str
    source: str
    caption: str
    tab: str
    numbers: Numbers
    by: Mapping[str, tuple[str, Sequence[str]]] = field(default_factory=dict)
    by_hours: bool = False
    totals: str = ""
    in_columns: bool = False
    paper: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    paper_places: int = 1
    more: Mapping[str, Numbers] = field(default_factory=dict)
    counted: str = "connections"
    drawn: Shares | Bars | Curves | Callable[[Selection, Rows], Markup] | None = None
    needs: str = ""
    hourly: Sequence[str] = ()
    notes: Sequence[str] = ()
    part_heading: str = ""

    def sections(self, selection: Selection) -> list[Section]:
        """Return the section of the report."""
        totals = self._rows(self.numbers, selection)
        rows = self._rows(self.numbers, selection, *self.by)
        shown = rows
        if self.totals:
            shown = [
                item
                for hours, total in totals
                for item in [(hours, total), *((h, r) for h, r in rows if h.name == hours.name)]
            ]
        counted, *_ = self.numbers.counts
        table = self._columns(totals) if self.in_columns else self._table(self.numbers, shown)
        more = [
            replace(self._table(numbers, self._rows(numbers, selection), of_all=True), caption=name)
            for name, numbers in self.more.items()
        ]
        section = Section(
            anchor=self.anchor,
            title=self.title,
            source=self.source,
            caption=self.caption,
            hours="peak and off-peak separately" if self.by_hours else Section.hours,
            samples=f"{count(sum(row[counted] for _, row in totals))} {self.counted}",
            figure=self._drawing(selection, rows, shown),
            tables=[table, *more],
            open_tables=self.drawn is None,
            notes=self.notes,
            part_heading=self.part_heading,
        )
        has_data = any(row[self.needs].value if self.needs else row[counted] for _, row in totals)
        return [unless_empty(section, has_data)]

    def _rows(self, numbers: Numbers, selection: Selection, *by: str) -> Rows:
        """Return the rows with their networks, or with the hours of these.

        Rows of the columns `by` without any count are left out.
        """
        keys = ["network", *(["period"] if self.by_hours else []), *by]
        found = [
            row
            for row in numbers.rows(selection, *keys)
            if not by or any(row[name] for name in numbers.counts)
        ]
        if self.by_hours:
            by_hours = split_by_hours(selection, found)
        else:
            by_hours = [
                Hours(network, "", "", "", [row for row in found if row["network"] == network.name])
                for network in selection.networks
            ]
        return [(hours, row) for hours in by_hours for row in sorted(hours.rows, key=self._place)]

    def _place(self, row: Row) -> list[int]:
        """Return the place of a row among those of its network and hours."""
        return [
            [*values, row[name]].index(row[name])
            for name, (_, values) in self.by.items()
            if name in row and values
        ]

    def _table(self, numbers: Numbers, rows: Rows, of_all: bool = False) -> NumberTable:
        """Return a table with a row for each network, hours and value of the columns `by`.

        of_all: the rows are of all values of these columns.
        """
        by = {} if of_all else self.by
        divided = self.drawn if isinstance(self.drawn, Shares) and self.drawn.by else None
        divided = None if of_all else divided
        shares = self._shares(divided, rows) if divided else {}
        cells = [
            [
                hours.network.name,
                *([hours.label] if self.by_hours else []),
                *(_text(row.get(name, self.totals)) for name in by),
                *(count(row[name]) for name, (label, _) in numbers.counts.items() if label),
                *([PERCENT.text(shares[hours.name].get(row[divided.by]))] if divided else []),
                *row.texts,
            ]
            for hours, row in rows
        ]
        headings = [
            "network",
            *(["hours"] if self.by_hours else []),
            *(heading for heading, _ in by.values()),
            *(label for label, _ in numbers.counts.values() if label),
            *([divided.title.lower()] if divided else []),
            *numbers.labels,
        ]
        if of_all:
            return NumberTable(headings, cells)
        keys = self.by_hours + len(by)
        counted = len(headings) - 1 - keys - len(numbers.ratios)
        cells += [
            [name, *[""] * keys, *[NOT_MEASURED] * counted, *self._paper_texts(name)]
            for name in self.paper
        ]
        return NumberTable(headings, cells)

    def _columns(self, totals: Rows) -> NumberTable:
        """Return a table with a row for each count and ratio, and a column for each network."""
        rows = [row for _, row in totals]
        counts = [
            [label, *(count(row[name]) for row in rows)]
            + [count(values.get(name)) for values in self.paper.values()]
            for name, (label, _) in self.numbers.counts.items()
        ]
        papers = [self._paper_texts(name) for name in self.paper]
        ratios = [
            [ratio.label, *(row.text(ratio.name) for row in rows), *(p[n] for p in papers)]
            for n, ratio in enumerate(self.numbers.ratios)
        ]
        networks = [hours.network.name for hours, _ in totals]
        return NumberTable(["", *networks, *self.paper], [*counts, *ratios])

    def _paper_texts(self, name: str) -> list[str]:
        values = self.paper[name]
        return [r.unit.text(values.get(r.name), self.paper_places) for r in self.numbers.ratios]

    def _drawing(
        self,
        selection: Selection,
        rows: Rows,
        shown: Rows,
    ) -> Markup:
        match self.drawn:
            case Shares(title) as drawn:
                of_bars = self._shares(drawn, rows)
                of_bars |= {name: dict(values) for name, values in self.paper.items()}
                parts = {
                    label: (colour, [of_bar.get(part) or 0.0 for of_bar in of_bars.values()])
                    for part, (label, colour) in zip(
                        drawn.colours, self.colours.items(), strict=True
                    )
                }
                if not of_bars:
                    return Markup()
                return share_bars(list(of_bars), parts, title, f"{self.title}: {title.lower()}")
            case Bars() as bars:
                return self._bars(bars, rows)
            case Curves() as curves:
                by = {name: values for name, (_, values) in self.by.items()}
                return curves.html(self.title, selection, self.numbers, by, shown, self.totals)
            case None:
                return Markup()
        return self.drawn(selection, rows)

    def _shares(self, drawn: Shares, rows: Rows) -> dict[str, dict[str, float]]:
        """Return the shares of the parts, by hours and part; hours without a whole have none."""
        if not drawn.by:
            return {
                ", ".join([hours.name, *(row[name] for name in self.by)]): {
                    name: row[name].value for name in drawn.colours
                }
                for hours, row in rows
                if any(row[name].value is not None for name in drawn.colours)
            }
        shares: dict[str, dict[str, float]] = {}
        for hours, of_hours in grouped(rows):
            whole = sum(row[drawn.amount] for row in of_hours)
            shares[hours.name] = {
                row[drawn.by]: row[drawn.amount] / whole for row in of_hours if whole
            }
        return shares

    def _bars(self, bars: Bars, rows: Rows) -> Markup:
        traces = [
            self._bar_trace(bars, hours, self.numbers[name], pattern, of_hours)
            for hours, of_hours in grouped(rows)
            for pattern, name in zip(self._patterns(hours, bars), bars.ratios, strict=False)
            if any(row[name].value is not None for row in of_hours)
        ]
        if not traces:
            return Markup()
        layout = {
            "xaxis": {
                "title": {"text": bars.x_title},
                "type": "category",
                "categoryorder": "array",
                "categoryarray": list(self.by[bars.x][1]),
            },
            "yaxis": {"title": {"text": bars.title}, "rangemode": "tozero"},
        }
        return figure_html({"data": traces, "layout": layout}, f"{self.title}: {bars.title}", 420)

    def _patterns(self, hours: Hours[Row], bars: Bars) -> Sequence[str]:
        """Return the patterns of a network's bars, one for each hours or ratio."""
        if not self.by_hours:
            return PATTERNS
        return [{"peak": "", "off_peak": "/"}.get(hours.period, ".")] * len(bars.ratios)

    def _bar_trace(
        self, bars: Bars, hours: Hours[Row], ratio: Ratio, pattern: str, rows: list[Row]
    ) -> dict[str, Any]:
        shown = {r[bars.x]: r[ratio.name] for r in rows if r[ratio.name].value is not None}
        scale, name = ratio.unit.scale, hours.name
        if len(bars.ratios) > 1:
            name = f"{name} {ratio.label}"
        return {
            "type": "bar",
            "name": name,
            "x": list(shown),
            "y": [scale * (estimate.value or 0) for estimate in shown.values()],
            "marker": {"color": hours.network.colour, "pattern": {"shape": pattern}},
            "error_y": error_bars(list(shown.values()), 1 / scale),
            "hovertemplate": "%{x}: %{y:.2f} " + ratio.unit.name + "<extra>" + name + "</extra>",
        }

    @property
    def colours(self) -> dict[str, str]:
        """The colours of labels on the dashboard."""
        if not isinstance(self.drawn, Shares):
            return {}
        return {
            part if self.drawn.by else self.numbers[part].label: colour
            for part, colour in self.drawn.colours.items()
        }

    @property
    def charts(self) -> list[list[Chart]]:
        """The charts of the dashboard, row by row."""
        name = self.anchor.replace("-", "_")
        headings = {key: heading for key, (heading, _) in self.by.items()}
        dataset = self.numbers.dataset(name, *self.by)
        dataset = replace(dataset, measured=self.counted, headings=headings)
        keys = ["network", *self.by, "hours"]
        places = (
            f"format('{{:012d}}', list_position({list(values)}, \"{name}\"))"
            if values
            else f"format('{{:012d}}', \"{name}\")"
            for name, (_, values) in self.by.items()
        )
        order = " || ".join(["network", *places, "hours"])
        metrics = [metric.name for metric in dataset.metrics]
        height = 92 if self.in_columns else 60 if self.by else 32
        has_intervals = any(ratio.kind != "none" for ratio in self.numbers.ratios)
        title = f"{self.title}{', with 95 % intervals' if has_intervals else ': numbers'}"
        table = charts.table(title, dataset, keys, metrics, order=order, height=height)
        more = [
            charts.table(
                f"{self.title}: {caption}, with 95 % intervals",
                found := replace(numbers.dataset(f"{name}_{n}"), measured=self.counted),
                ["network", "hours"],
                [metric.name for metric in found.metrics],
                order="network || hours",
            )
            for n, (caption, numbers) in enumerate(self.more.items())
        ]
        rows = [[table], *([chart] for chart in more), *self._drawn_charts(name)]
        return [[replace(chart, caption=self.caption) for chart in row] for row in rows]

    def _drawn_charts(self, name: str) -> list[list[Chart]]:
        rows = rows_dataset(self.numbers, f"{name}_rows", self.counted)
        found = []
        match self.drawn:
            case Shares(title, colours, by, amount):
                label, summed = self.numbers.counts.get(amount, (self.counted, ""))
                if by:
                    samples, *_ = self.numbers.counts
                    of_bars = sum_of_series(summed, label, samples, ["series"])
                    divided = replace(rows, name=f"{name}_parts", metrics=[of_bars])
                else:
                    divided = parts_dataset(
                        self.numbers, f"{name}_parts", list(colours), label, self.by
                    )
                    divided = replace(divided, measured=self.counted)
                    [of_bars] = divided.metrics
                drawn = f"{self.title}: {title.lower()}"
                height = 80 if self.by and not by else 50
                found.append(
                    charts.share_bars(
                        drawn, divided, by or "part", of_bars.name, title, height=height
                    )
                )
            case Curves() as curves:
                values = {key: listed for key, (_, listed) in self.by.items()}
                found += curves.charts(self.title, self.numbers, f"{name}_curves", values)
            case Bars() as bars:
                found += [
                    charts.bars(
                        self._title_of(ratio), rows, bars.x, ratio,
                        horizontal=True,
                    )
                    for ratio in bars.ratios
                ]  # fmt: skip
        found += [
            charts.bars(
                f"{self._title_of(ratio)} by local hour", rows, "hour", ratio, "network",
                x_title="Local hour [h]",
            )
            for ratio in self.hourly
        ]  # fmt: skip
        return [found[n : n + 2] for n in range(0, len(found), 2)]

    def _title_of(self, ratio: str) -> str:
        """Return the title of a chart of one ratio."""
        if len(self.numbers.ratios) == 1:
            return self.title
        return f"{self.title}: {self.numbers[ratio].label}"


def _text(value: Any) -> str:
    """Return a value of a column as text."""
    return value if isinstance(value, str) else count(value)


def grouped(rows: Rows) -> list[tuple[Hours[Row], list[Row]]]:
    """Return the rows of each network and hours."""
    groups: dict[str, tuple[Hours[Row], list[Row]]] = {}
    for hours, row in rows:
        groups.setdefault(hours.name, (replace(hours, rows=[]), []))[1].append(row)
    return list(groups.values())
