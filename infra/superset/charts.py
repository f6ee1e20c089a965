"""The few kinds of charts there are, as Superset keeps them."""

import json
from collections.abc import Sequence

from infra.superset.parts import COLOUR_SCHEME, MOST_ROWS, Chart, Dataset, Form


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
    title: str,
    dataset: Dataset,
    rows: Sequence[str],
    metrics: Sequence[str],
    *,
    order: str,
    newest_first: bool = False,
    where: str = "",
    height: int = 32,
) -> Chart:
    form = {
        "query_mode": "aggregate",
        "groupby": list(rows),
        "metrics": list(metrics),
        "all_columns": [],
        "percent_metrics": [],
        "order_by_cols": [],
        "order_desc": newest_first,
        "timeseries_limit_metric": _sql_metric(f"min({order})", "order"),
        "row_limit": 1000,
        "table_timestamp_format": "%Y-%m-%d",
        "show_cell_bars": False,
        "color_pn": False,
        "adhoc_filters": _filters(where),
        "column_config": {
            m: {"d3NumberFormat": dataset.metric(m).format}
            for m in metrics
            if dataset.metric(m).format
        },
    }
    return Chart(title, dataset, "table", form, height)


def listed(
    title: str,
    dataset: Dataset,
    columns: Sequence[str],
    *,
    order: str,
    height: int = 50,
    width: int = 0,
) -> Chart:
    """A dataset's rows as they are; order: columns; the newest first by a date, what is held by
    that."""
    form = {
        "query_mode": "raw",
        "groupby": [],
        "metrics": [],
        "all_columns": list(columns),
        "percent_metrics": [],
        "order_by_cols": [json.dumps([c, c not in ("date", "held")]) for c in order.split(", ")],
        "row_limit": 1000,
        "server_page_length": 10,
        "table_timestamp_format": "%Y-%m-%d",
        "show_cell_bars": False,
        "color_pn": False,
        "adhoc_filters": _filters(),
        "column_config": {"date": {"d3TimeFormat": "%Y-%m-%d"}} if "date" in columns else {},
    }
    return Chart(title, dataset, "table", form, height, width)


def lines(title: str, dataset: Dataset, metric: str, *, where: str = "", height: int = 50) -> Chart:
    """A line a series, day by day."""
    chosen = dataset.metric(metric)
    form = {
        **_axes("date", "series", [metric], "", chosen.label, chosen.format),
        "time_grain_sqla": "P1D",
        "x_axis_time_format": "%d %b",
        "seriesType": "line",
        "markerEnabled": True,
        "markerSize": 4,
        "adhoc_filters": _filters(where),
    }
    return Chart(title, dataset, "echarts_timeseries_line", form, height)


def heat_map(
    title: str, dataset: Dataset, x: str, y: str, metric: str, *, height: int = 50
) -> Chart:
    """The darker the more."""
    form = {
        "x_axis": x,
        "time_grain_sqla": "P1D",
        "groupby": y,
        "metric": metric,
        "sort_x_axis": "alpha_asc",
        "sort_y_axis": "alpha_desc",
        "normalize_across": "heatmap",
        "linear_color_scheme": "oranges",
        "legend_type": "continuous",
        "show_legend": True,
        "show_percentage": False,
        "show_values": False,
        "xscale_interval": -1,
        "yscale_interval": 4,
        "left_margin": "auto",
        "bottom_margin": "auto",
        "value_bounds": [None, None],
        "y_axis_format": dataset.metric(metric).format,
        "x_axis_time_format": "%d %b",
        "row_limit": MOST_ROWS,
        "adhoc_filters": _filters(),
    }
    return Chart(title, dataset, "heatmap_v2", form, height)


def pivot(
    title: str,
    dataset: Dataset,
    metrics: Sequence[str],
    *,
    columns: Sequence[str],
    rows: Sequence[str] = (),
    metrics_in_rows: bool = False,
    share: bool = False,
    text: bool = False,
    where: str = "",
    height: int = 32,
) -> Chart:
    """share: of a column's total, with subtotals; text: what is told is no number."""
    form = {
        "groupbyRows": list(rows),
        "groupbyColumns": list(columns),
        "metrics": list(metrics),
        "metricsLayout": "ROWS" if metrics_in_rows else "COLUMNS",
        "aggregateFunction": "Sum as Fraction of Columns" if share else "First" if text else "Sum",
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
    return Chart(title, dataset, "pivot_table_v2", form, height)


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
    descending: bool = False,
    whole: bool = False,
    where: str = "",
    having: str = "",
    height: int = 50,
    width: int = 0,
) -> Chart:
    """A bar a value of x and `by`; whole: the axis ends at 100 %."""
    chosen = dataset.metric(metric)
    form = {
        **_axes(x, by, [metric], x_title, y_title or chosen.label, chosen.format),
        "orientation": "horizontal" if horizontal else "vertical",
        "stack": "Stack" if stacked else None,
        "xAxisForceCategorical": x != "date",
        "x_axis_sort_asc": not descending,
        "xAxisLabelRotation": 45 if long_labels else 0,
        "xAxisLabelInterval": "auto" if x in ("date", "hour") else "0",
        "adhoc_filters": _filters(where, having),
    }
    if whole:
        form |= WHOLE
    if x == "date":
        form |= {"time_grain_sqla": "P1D", "x_axis_time_format": "%Y-%m-%d"}
    return Chart(title, dataset, "echarts_timeseries_bar", form, height, width)


def shares(
    title: str, dataset: Dataset, of: str, metric: str, y_title: str, *, width: int = 0
) -> Chart:
    """A bar a series, made up of its parts."""
    form = {
        **_axes("series", of, [metric], "", y_title, ".0%"),
        "orientation": "horizontal",
        "stack": "Stack",
        "contributionMode": "row",
        **WHOLE,
        "adhoc_filters": _filters(),
    }
    return Chart(title, dataset, "echarts_timeseries_bar", form, width=width)


def histogram(
    title: str,
    dataset: Dataset,
    x: str,
    metric: str,
    x_title: str,
    y_title: str,
    where: str = "",
) -> Chart:
    """Shares of each series' total, as steps through an outlined dataset."""
    form = {
        **_axes(x, "series", [metric], x_title, y_title, ".0%"),
        **STEPS,
        "contributionMode": "column",
        "adhoc_filters": _filters(where),
    }
    return Chart(title, dataset, "echarts_timeseries_step", form)


def cumulative(
    title: str,
    dataset: Dataset,
    x: str,
    x_title: str,
    y_title: str,
    where: str = "",
    x_most: float | None = None,
) -> Chart:
    """The cumulative share of each series by its bins' upper edges; x_most: where the axis ends,
    if not at the last."""
    form = {
        **_axes(x, "series", ["share"], x_title, y_title, ".0%"),
        **STEPS,
        "xAxisBounds": [0, x_most],
        "rolling_type": "cumsum",
        "y_axis_bounds": [0, 1],
        "truncateYAxis": True,
        "adhoc_filters": _filters(" and ".join([*filter(None, [where]), f"{x} is not null"])),
    }
    return Chart(title, dataset, "echarts_timeseries_step", form)


# What rounding adds to a whole must not be beyond: the last part would be left out.
WHOLE = {"y_axis_bounds": [0, 1.001], "truncateYAxis": True}
STEPS = {
    "seriesType": "end",
    "markerEnabled": False,
    "xAxisForceCategorical": False,
    # From zero to the last bin's edge: nothing is beyond.
    "truncateXAxis": True,
    "xAxisBounds": [0, None],
}


# Room for two lines of names at the top: at the right it would take half of a narrow chart.
LEGEND = {"legendType": "plain", "legendOrientation": "top", "legendMargin": 48}


def _axes(x: str, by: str, metrics: Sequence[str], x_title: str, y_title: str, number: str) -> Form:
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
        **LEGEND,
        "rich_tooltip": True,
        "sort_series_type": "name",
        "sort_series_ascending": True,
        "row_limit": MOST_ROWS,
        "order_desc": True,
        "xAxisLabelInterval": "auto",
        "color_scheme": COLOUR_SCHEME,
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
