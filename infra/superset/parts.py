"""Datasets, charts and dashboards as values, and the few kinds of charts there are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Form = dict[str, Any]
"""A chart's settings as Superset keeps them."""

MOST_ROWS = 50_000
COMPARED = ["peak", "off-peak"]


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
    """One chart; `height` in units of the grid."""

    title: str
    dataset: Dataset
    kind: str
    form: Form
    height: int = 50


@dataclass(frozen=True)
class Dashboard:
    """Rows of charts that share the width; `hours` is what its filter Hours starts with."""

    title: str
    slug: str
    rows: Sequence[Sequence[Chart]]
    hours: Sequence[str] = field(default_factory=lambda: COMPARED)


def labelled(column: str, labels: Mapping[Any, str], otherwise: str = "null") -> str:
    """SQL that gives a value's label."""
    whens = " ".join(
        f"when {_literal(value)} then {_literal(label)}" for value, label in labels.items()
    )
    return f"case {column} {whens} else {otherwise} end"


def _literal(value: Any) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def rate_axis(mart: str, weight: str, columns: str, shown: int) -> str:
    """A mart's rows with rate_kbps, its bins of 1 % redrawn in round steps.

    The steps are such that `shown` of them hold 99 % of an access's weight; the last holds the
    rest too.
    """
    return f"""
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
    end as step
    from roughs
)
select {columns},
    least(floor(exp((bin + 0.5) / 100) / step), {shown}) * step / 1000 as rate_kbps
from {mart} join steps using (access)
"""


def big_number(title: str, dataset: Dataset, metric: str) -> Chart:
    form = {
        "metric": metric,
        "y_axis_format": dataset.metric(metric).format,
        "header_font_size": 0.4,
        "subheader_font_size": 0.15,
        "force_timestamp_formatting": False,
        "adhoc_filters": [WHEN],
    }
    return Chart(title, dataset, "big_number_total", form, height=18)


def table(
    title: str, dataset: Dataset, rows: Sequence[str], metrics: Sequence[str], where: str = ""
) -> Chart:
    form = {
        "query_mode": "aggregate",
        "groupby": list(rows),
        "metrics": list(metrics),
        "all_columns": [],
        "percent_metrics": [],
        "order_by_cols": [],
        "order_desc": False,
        "timeseries_limit_metric": _sql_metric(f"min({rows[0]})", "order"),
        "row_limit": 1000,
        "table_timestamp_format": "%Y-%m-%d",
        "show_cell_bars": False,
        "color_pn": False,
        "adhoc_filters": _filters(where),
        "column_config": {m: {"d3NumberFormat": dataset.metric(m).format} for m in metrics},
    }
    return Chart(title, dataset, "table", form)


def pivot(
    title: str,
    dataset: Dataset,
    metrics: Sequence[str],
    *,
    columns: Sequence[str],
    rows: Sequence[str] = (),
    metrics_in_rows: bool = False,
    share: bool = False,
    where: str = "",
) -> Chart:
    """share: of a column's total, with subtotals."""
    form = {
        "groupbyRows": list(rows),
        "groupbyColumns": list(columns),
        "metrics": list(metrics),
        "metricsLayout": "ROWS" if metrics_in_rows else "COLUMNS",
        "aggregateFunction": "Sum as Fraction of Columns" if share else "Sum",
        "rowSubTotals": share,
        "rowSubtotalPosition": True,
        "colTotals": False,
        "rowTotals": False,
        "rowOrder": "key_a_to_z",
        "colOrder": "key_a_to_z",
        "valueFormat": ".1%" if share else "SMART_NUMBER",
        "date_format": "%Y-%m-%d",
        "row_limit": MOST_ROWS,
        "order_desc": True,
        "adhoc_filters": _filters(where),
    }
    return Chart(title, dataset, "pivot_table_v2", form)


def bars(
    title: str,
    dataset: Dataset,
    x: str,
    metric: str,
    by: str,
    *,
    x_title: str = "",
    y_title: str = "",
    stacked: bool = False,
    horizontal: bool = False,
    long_labels: bool = False,
    where: str = "",
    having: str = "",
) -> Chart:
    """A bar a value of x and `by`."""
    chosen = dataset.metric(metric)
    form = {
        **_axes(x, by, [metric], x_title, y_title or chosen.label, chosen.format),
        "orientation": "horizontal" if horizontal else "vertical",
        "stack": "Stack" if stacked else None,
        "xAxisForceCategorical": True,
        "xAxisLabelRotation": 45 if long_labels else 0,
        "adhoc_filters": _filters(where, having),
    }
    if x == "date":
        form |= {"time_grain_sqla": "P1D", "x_axis_time_format": "%Y-%m-%d"}
    if long_labels:
        form |= {"x_axis_title": "", "x_axis_title_margin": 0}
    return Chart(title, dataset, "echarts_timeseries_bar", form, height=64 if long_labels else 50)


def shares(title: str, dataset: Dataset, of: str, metric: str, y_title: str) -> Chart:
    """A bar a series, made up of its parts."""
    form = {
        **_axes("series", of, [metric], "", y_title, ".0%"),
        "orientation": "horizontal",
        "stack": "Stack",
        "contributionMode": "row",
        "y_axis_bounds": [0, 1],
        "truncateYAxis": True,
        "adhoc_filters": _filters(),
    }
    return Chart(title, dataset, "echarts_timeseries_bar", form)


def histogram(
    title: str,
    dataset: Dataset,
    x: str,
    metric: str,
    x_title: str,
    y_title: str,
    by: str = "network",
) -> Chart:
    """Shares of each network's (or series') total, side by side."""
    form = {
        **_axes(x, by, [metric], x_title, y_title, ".0%"),
        "contributionMode": "column",
        "orientation": "vertical",
        "stack": None,
        "xAxisForceCategorical": False,
        "adhoc_filters": _filters(),
    }
    return Chart(title, dataset, "echarts_timeseries_bar", form)


def cumulative(
    title: str, dataset: Dataset, x: str, x_title: str, y_title: str, where: str = ""
) -> Chart:
    """The cumulative share of each series."""
    form = {
        **_axes(x, "series", ["share"], x_title, y_title, ".0%"),
        "rolling_type": "cumsum",
        "seriesType": "end",
        "markerEnabled": False,
        "xAxisForceCategorical": False,
        "y_axis_bounds": [0, 1],
        "truncateYAxis": True,
        "adhoc_filters": _filters(where),
    }
    return Chart(title, dataset, "echarts_timeseries_step", form)


def _axes(
    x: str, by: str, metrics: Sequence[str], x_title: str, y_title: str, number: str
) -> Form:
    return {
        "x_axis": x,
        "x_axis_sort": x,
        "x_axis_sort_asc": True,
        "groupby": [by],
        "metrics": list(metrics),
        "x_axis_title": x_title,
        "x_axis_title_margin": 30 if x_title else 0,
        "y_axis_title": y_title,
        "y_axis_title_margin": 50,
        "y_axis_title_position": "Left",
        "y_axis_format": number,
        "x_axis_number_format": "~g",
        "truncate_metric": True,
        "show_legend": True,
        "legendType": "scroll",
        "legendOrientation": "top",
        "rich_tooltip": True,
        "sort_series_type": "name",
        "sort_series_ascending": True,
        "row_limit": MOST_ROWS,
        "order_desc": True,
        "color_scheme": "d3Category10",
    }


WHEN = {
    "expressionType": "SIMPLE",
    "clause": "WHERE",
    "subject": "date",
    "operator": "TEMPORAL_RANGE",
    "comparator": "No filter",
}
"""The place where a dashboard's dates go."""


def _filters(where: str = "", having: str = "") -> list[Form]:
    written = [("WHERE", where), ("HAVING", having)]
    return [WHEN] + [
        {"expressionType": "SQL", "clause": clause, "sqlExpression": sql}
        for clause, sql in written
        if sql
    ]


def _sql_metric(sql: str, label: str) -> Form:
    return {"expressionType": "SQL", "sqlExpression": sql, "label": label, "hasCustomLabel": True}
