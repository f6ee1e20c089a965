"""Superset's datasets, charts, filters and dashboards as values, and SQL that datasets share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_jobs.figures.mart_columns import user_count, users_with
from spark_jobs.figures.statistics import enough_sql

FormData = dict[str, Any]
"""Settings of a chart, as Superset stores them."""

MAX_ROWS = 50_000
COLOUR_SCHEME = "d3Category10"
SERIES = ("network", "hours")
"""Columns whose values have a line or a bar each, as a rule: "aa-gprs, peak"."""


@dataclass(frozen=True)
class Metric:
    """Number that a dataset gives: its SQL, its label on the page and its d3 format."""

    name: str
    sql: str
    label: str
    format: str


@dataclass(frozen=True)
class Dataset:
    """SQL over the marts, and the metrics of its rows.

    measured: what it counts, in words, for the descriptions of charts.
    headings: of columns whose heading is not their name.
    """

    name: str
    sql: str
    metrics: Sequence[Metric]
    measured: str = "connections"
    headings: dict[str, str] = field(default_factory=dict)

    def metric(self, name: str) -> Metric:
        """Return the metric of this name."""
        return next(metric for metric in self.metrics if metric.name == name)


@dataclass(frozen=True)
class Chart:
    """One chart.

    kind: Superset's name of the kind of chart.
    height: units of the grid.
    width: columns of the grid; 0: the charts of a row share what the others leave.
    one_network: the chart shows the network of a filter of its own. A chart without the networks'
    names needs it: a mean over several networks differs between peak and off-peak also because
    their shares in the samples differ.
    caption: what the chart shows.
    description: what the chart is about, and why it may have no rows; empty: made from the
    dataset's `measured`.
    """

    title: str
    dataset: Dataset
    kind: str
    form_data: FormData
    height: int = 50
    width: int = 0
    one_network: bool = False
    caption: str = ""
    description: str = ""


@dataclass(frozen=True)
class Text:
    """Markdown text among the charts; height and width as for a chart."""

    text: str
    height: int
    width: int = 0


@dataclass(frozen=True)
class ValueFilter:
    """Filter by the values of a column.

    name: label on the page.
    dataset: dataset whose values the filter offers.
    narrowed_by: columns of other filters, which narrow the values that this filter offers.
    selected: values that are selected at first.
    single: exactly one value is selected at a time.
    select_first: the first value is selected at first.
    charts: titles of the charts that the filter applies to; empty: all charts.
    key: distinguishes two filters of the same column.
    """

    column: str
    name: str
    dataset: Dataset
    narrowed_by: Sequence[str] = ()
    selected: Sequence[str] = ()
    single: bool = False
    select_first: bool = False
    charts: Sequence[str] = ()
    key: str = ""


@dataclass(frozen=True)
class DateFilter:
    """Filter by date, from one day until another.

    charts: titles of the charts that the filter applies to; empty: all charts.
    """

    charts: Sequence[str] = ()


@dataclass(frozen=True)
class Tab:
    """Page of the dashboard: charts and texts side by side, row by row."""

    title: str
    key: str
    rows: Sequence[Sequence[Chart | Text]]

    @property
    def charts(self) -> list[Chart]:
        """All charts of the tab, row by row, without the texts."""
        return [part for row in self.rows for part in row if isinstance(part, Chart)]


@dataclass(frozen=True)
class Dashboard:
    """Tabs of charts, which share their filters.

    colours: colour of each label that names no network.
    """

    title: str
    slug: str
    tabs: Sequence[Tab]
    filters: Sequence[ValueFilter | DateFilter]
    colours: Mapping[str, str] = field(default_factory=dict)

    @property
    def charts(self) -> list[Chart]:
        """All charts, tab by tab."""
        return [chart for tab in self.tabs for chart in tab.charts]


def enough_data(samples: str, partition_by: str = "") -> str:
    """Return the SQL condition that there are enough samples, of enough users, to show a value.

    samples: column with the number of samples of a row.
    partition_by: column of the chart's groups; all groups with the same value count together.
    """
    count, users = f"sum({samples})", users_with(samples)
    if partition_by:
        window = f"over (partition by {partition_by})"
        count = f"sum({count}) {window}"
        known = f"filter (where ({samples}) > 0)"
        users = user_count(
            f"bit_or(bit_or(user_groups) {known}) {window}",
            f"list(list_distinct(flatten(list(user_numbers) {known}))) {window}",
        )
    return enough_sql(count, users)


def if_enough_data(sql: str, samples: str, partition_by: str = "") -> str:
    """Return SQL that is null if there are too few samples, or samples of too few users."""
    return f"case when {enough_data(samples, partition_by)} then {sql} end"


def label_sql(column: str, labels: Mapping[Any, str], otherwise: str = "null") -> str:
    """Return SQL that maps each value of a column to its label, and others to `otherwise`."""
    whens = " ".join(
        f"when {literal(value)} then {literal(label)}" for value, label in labels.items()
    )
    return f"case {column} {whens} else {otherwise} end"


def literal(value: Any) -> str:
    """Return a string or a number as a literal of SQL."""
    return str(value) if isinstance(value, int | float) else "'" + value.replace("'", "''") + "'"


def histogram_outline(
    columns: str,
    sums: Sequence[str],
    rows: str,
    low: str,
    width: str,
    name: str,
    below: str = "",
) -> str:
    """Return SQL of a histogram's rows as the outline of its bins, for a line of steps.

    The rows have each bin's lower edge as the column `name`, and its upper edge as `name`_below.
    Further rows have zero sums: one at each bin's upper edge, and one at zero. So the line starts
    at zero, and falls to zero after a bin that has no neighbour.

    columns: columns of `rows` to keep.
    sums: columns of `rows` that are drawn.
    low, width: SQL of a bin's lower edge and width.
    below: SQL of what `name`_below is instead of the upper edge.
    """
    edge = f"round({low} + {width}, 3)"
    zeros = "".join(f"\n    unnest([{name}, 0, 0]) as {name}," for name in sums)
    return f"""
select {columns},{zeros}
    unnest([round({low}, 3), {edge}, 0]) as {name},
    unnest([{below or edge}, null, 0]) as {name}_below
from {rows}
"""


def rate_histogram(mart: str, columns: str, sums: Sequence[str], bins: int, mean: str) -> str:
    """Return SQL of a mart's rows with rate_kbps, in round steps, and rate_kbps_below, to 0.5 %.

    The step of an access technology is such that `bins` steps hold 99 % of its first sum. The
    last step also holds all higher rates.

    mean: SQL of the mean rate of a row of the mart (bit/s), which is in a bin of 1 %.
    """
    weight = sums[0]
    steps = f"""
with weights as (
    select access, bin, sum({weight}) as weight from {mart} group by all
), tops as (
    select access, exp((bin + 0.5) / 100) / {bins} as rough from weights
    qualify sum(weight) over (partition by access order by bin)
        >= 0.99 * sum(weight) over (partition by access)
), roughs as (
    select access, min(rough) as rough, pow(10, floor(log10(min(rough)))) as unit
    from tops group by access
), steps as (
    select access, unit * case
        when rough <= unit then 1 when rough <= 2 * unit then 2 when rough <= 5 * unit then 5
        else 10
    end / 1000 as step
    from roughs
)"""
    low = f"least(floor({mean} / 1000 / step), {bins}) * step"
    below = f"least(exp(ceil(200 * ln({mean})) / 200) / 1000, {bins} * step)"
    rows = f"{mart} join steps using (access)"
    return steps + histogram_outline(columns, sums, rows, low, "step", "rate_kbps", below)
