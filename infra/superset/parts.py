"""Datasets, charts and dashboards as values, and SQL that they share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_jobs.estimators.by_user import MIN_SAMPLES, MIN_USERS

Form = dict[str, Any]
"""A chart's settings as Superset keeps them."""

MOST_ROWS = 50_000
COLOUR_SCHEME = "d3Category10"


@dataclass(frozen=True)
class Metric:
    """A number of a dataset: SQL, its name for readers, its d3 format."""

    name: str
    sql: str
    label: str
    format: str


@dataclass(frozen=True)
class Dataset:
    """SQL over the marts, with metrics."""

    name: str
    sql: str
    metrics: Sequence[Metric]

    def metric(self, name: str) -> Metric:
        return next(metric for metric in self.metrics if metric.name == name)


@dataclass(frozen=True)
class Chart:
    """One chart; `height` in units of the grid; width: columns of it, else what others leave."""

    title: str
    dataset: Dataset
    kind: str
    form: Form
    height: int = 50
    width: int = 0


@dataclass(frozen=True)
class Text:
    """Markdown among the charts."""

    text: str
    height: int
    width: int = 0


@dataclass(frozen=True)
class Choice:
    """A filter: a column's values, of which some are chosen.

    dataset: whose values are offered; narrowed_by: columns of other filters; single: one value
    at a time, never none; first: the first is chosen; charts: titles of those that it is for, all
    if none is named; key: where a page has two of a column.
    """

    column: str
    name: str
    dataset: Dataset
    narrowed_by: Sequence[str] = ()
    chosen: Sequence[str] = ()
    single: bool = False
    first: bool = False
    charts: Sequence[str] = ()
    key: str = ""


@dataclass(frozen=True)
class Dates:
    """A filter: from a day until a day; not for the charts `apart`."""

    apart: Sequence[str] = ()


@dataclass(frozen=True)
class Dashboard:
    """Rows of charts that share the width; colours: of labels that name no network."""

    title: str
    slug: str
    rows: Sequence[Sequence[Chart | Text]]
    filters: Sequence[Choice | Dates]
    colours: Mapping[str, str] = field(default_factory=dict)

    @property
    def charts(self) -> list[Chart]:
        """Without texts."""
        return [part for row in self.rows for part in row if isinstance(part, Chart)]


def enough(samples: str, over: str = "") -> str:
    """The rule of what is shown, as SQL; over: of all rows with the same value, where a chart
    groups by it."""
    count, groups = f"sum({samples})", "bit_or(user_groups)"
    if over:
        window = f"over (partition by {over})"
        count, groups = f"sum({count}) {window}", f"bit_or({groups}) {window}"
    return f"{count} >= {MIN_SAMPLES} and bit_count({groups}) >= {MIN_USERS}"


def told_if_enough(sql: str, samples: str, over: str = "") -> str:
    """Null where too few samples, or samples of too few users, tell it."""
    return f"case when {enough(samples, over)} then {sql} end"


def labelled(column: str, labels: Mapping[Any, str], otherwise: str = "null") -> str:
    """SQL that gives a value's label."""
    whens = " ".join(
        f"when {literal(value)} then {literal(label)}" for value, label in labels.items()
    )
    return f"case {column} {whens} else {otherwise} end"


def literal(value: Any) -> str:
    """A text or a number in SQL."""
    return str(value) if isinstance(value, int | float) else "'" + value.replace("'", "''") + "'"


def outlined(columns: str, sums: Sequence[str], rows: str, low: str, width: str, name: str) -> str:
    """Rows with a histogram bin's lower edge `name` and upper edge `name`_below.

    A row of zero sums follows each bin, and one stands at zero, so that a line of steps through
    the bins that there are starts at zero and falls to zero where there are none.
    """
    edge = f"round({low} + {width}, 3)"
    zeros = "".join(f"\n    unnest([{name}, 0, 0]) as {name}," for name in sums)
    return f"""
select {columns},{zeros}
    unnest([round({low}, 3), {edge}, 0]) as {name},
    unnest([{edge}, null, 0]) as {name}_below
from {rows}
"""


def rate_axis(mart: str, columns: str, sums: Sequence[str], shown: int) -> str:
    """A mart's rows with rate_kbps, its bins of 1 % redrawn in round steps.

    The steps are such that `shown` of them hold 99 % of an access's first sum; the last holds the
    rest too.
    """
    weight = sums[0]
    steps = f"""
with weights as (
    select access, bin, sum({weight}) as weight from {mart} group by all
), tops as (
    select access, exp((bin + 0.5) / 100) / {shown} as rough from weights
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
    low = f"least(floor(exp((bin + 0.5) / 100) / 1000 / step), {shown}) * step"
    rows = f"{mart} join steps using (access)"
    return steps + outlined(columns, sums, rows, low, "step", "rate_kbps")
