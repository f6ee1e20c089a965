"""The kinds of charts that the pages use, with their settings for Superset."""

import json
from collections.abc import Sequence

from spark_jobs.figures.dashboard_parts import (
    COLOUR_SCHEME,
    MAX_ROWS,
    SERIES,
    Chart,
    Dataset,
    FormData,
)


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
    """Return a table of metrics by the columns `rows`; order: SQL that sorts the rows."""
    form_data = {
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
    return Chart(title, dataset, "table", form_data, height)


def raw_table(
    title: str,
    dataset: Dataset,
    columns: Sequence[str],
    *,
    order: str,
    where: str = "",
    limit: int = 1000,
    height: int = 50,
    width: int = 0,
) -> Chart:
    """Return a table of a dataset's rows, of the first `limit`.

    order: names of the columns that sort the rows, with ` desc` if the largest come first.
    """
    form_data = {
        "query_mode": "raw",
        "groupby": [],
        "metrics": [],
        "all_columns": list(columns),
        "percent_metrics": [],
        "order_by_cols": [
            json.dumps([column.removesuffix(" desc"), not column.endswith(" desc")])
            for column in order.split(", ")
        ],
        "row_limit": limit,
        "server_page_length": 10,
        "table_timestamp_format": "%Y-%m-%d",
        "show_cell_bars": False,
        "color_pn": False,
        "adhoc_filters": _filters(where),
        "column_config": {"date": {"d3TimeFormat": "%Y-%m-%d"}} if "date" in columns else {},
    }
    return Chart(title, dataset, "table", form_data, height, width)


def lines(
    title: str,
    dataset: Dataset,
    metric: str,
    *,
    by: str,
    x: str = "date",
    where: str = "",
    height: int = 50,
) -> Chart:
    """Return a line chart with a line for each value of `by`.

    x: `date`, with a point for each day, or a column of times.
    """
    shown_metric = dataset.metric(metric)
    form_data = {
        **_axes(x, [by], [metric], "", shown_metric.label, shown_metric.format),
        "time_grain_sqla": "P1D" if x == "date" else None,
        "x_axis_time_format": "%d %b" if x == "date" else "%H:%M",
        "seriesType": "line",
        "markerEnabled": True,
        "markerSize": 4,
        "adhoc_filters": _filters(where),
    }
    return Chart(title, dataset, "echarts_timeseries_line", form_data, height)


def big_number(title: str, dataset: Dataset, metric: str, *, where: str) -> Chart:
    """Return the number of the last day, its difference from the day before, and a line by day."""
    form_data = {
        "x_axis": "date",
        "time_grain_sqla": "P1D",
        "metric": metric,
        "compare_lag": 1,
        "compare_suffix": "from the day before",
        "show_timestamp": True,
        "show_trend_line": True,
        "start_y_axis_at_zero": True,
        "y_axis_format": dataset.metric(metric).format,
        "time_format": "%Y-%m-%d",
        "header_font_size": 0.4,
        "subheader_font_size": 0.15,
        "row_limit": MAX_ROWS,
        "adhoc_filters": _filters(where),
    }
    return Chart(title, dataset, "big_number", form_data, height=30)


def heat_map(
    title: str,
    dataset: Dataset,
    x: str,
    y: str,
    metric: str,
    bounds: tuple[float, float],
    *,
    height: int = 50,
) -> Chart:
    """Return a heat map: the darker a field, the larger its value; bounds: of the scale."""
    form_data = {
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
        "yscale_interval": 1,
        "left_margin": 10,
        "bottom_margin": 10,
        "value_bounds": list(bounds),
        "y_axis_format": dataset.metric(metric).format,
        "x_axis_time_format": "%d %b",
        "row_limit": MAX_ROWS,
        "adhoc_filters": _filters(),
    }
    return Chart(title, dataset, "heatmap_v2", form_data, height)


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
    """Return a pivot table.

    share: show shares of a column's total, with subtotals.
    text: the metric is a text, not a number.
    """
    form_data = {
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
        "row_limit": MAX_ROWS,
        "order_desc": True,
        "adhoc_filters": _filters(where),
    }
    return Chart(title, dataset, "pivot_table_v2", form_data, height)


def bars(
    title: str,
    dataset: Dataset,
    x: str,
    metric: str,
    by: str = "",
    *,
    x_title: str = "",
    y_title: str = "",
    stacked: bool = False,
    horizontal: bool = False,
    long_labels: bool = False,
    descending: bool = False,
    axis_to_100_percent: bool = False,
    where: str = "",
    having: str = "",
    height: int = 50,
    width: int = 0,
) -> Chart:
    """Return a bar chart with a bar for each value of `x` and `by`; empty: of SERIES."""
    shown_metric = dataset.metric(metric)
    # Rows without a value would draw axes without bars. SQL allows no window function here.
    known = "" if " over (" in shown_metric.sql else f"({shown_metric.sql}) is not null"
    form_data = {
        **_axes(
            x,
            [by] if by else SERIES,
            [metric],
            x_title,
            y_title or shown_metric.label,
            shown_metric.format,
        ),
        "orientation": "horizontal" if horizontal else "vertical",
        "stack": "Stack" if stacked else None,
        "xAxisForceCategorical": x != "date",
        "x_axis_sort_asc": not descending,
        "xAxisLabelRotation": 45 if long_labels else 0,
        "xAxisLabelInterval": "auto" if x in ("date", "hour") else "0",
        "adhoc_filters": _filters(where, " and ".join(filter(None, [having, known]))),
    }
    if axis_to_100_percent:
        form_data |= AXIS_TO_100_PERCENT
    if x == "date":
        form_data |= {"time_grain_sqla": "P1D", "x_axis_time_format": "%Y-%m-%d"}
    return Chart(title, dataset, "echarts_timeseries_bar", form_data, height, width)


def share_bars(
    title: str,
    dataset: Dataset,
    part: str,
    metric: str,
    y_title: str,
    *,
    where: str = "",
    height: int = 50,
    width: int = 0,
) -> Chart:
    """Return a bar chart with one bar for each series, divided into shares by the column `part`.

    The dataset has the networks with their hours as a column `series`, the axis of the chart.
    """
    form_data = {
        **_axes("series", [part], [metric], "", y_title, ".0%"),
        "orientation": "horizontal",
        "stack": "Stack",
        "contributionMode": "row",
        **AXIS_TO_100_PERCENT,
        "adhoc_filters": _filters(where),
    }
    return Chart(title, dataset, "echarts_timeseries_bar", form_data, height, width)


def histogram(
    title: str,
    dataset: Dataset,
    x: str,
    metric: str,
    x_title: str,
    y_title: str,
    where: str = "",
) -> Chart:
    """Return a histogram as a line of steps: each bin's share of its network and hours.

    The dataset has rows by `histogram_outline`.
    """
    form_data = {
        **_axes(x, SERIES, [metric], x_title, y_title, ".0%"),
        **STEP_LINE,
        "contributionMode": "column",
        "adhoc_filters": _filters(where),
    }
    return Chart(title, dataset, "echarts_timeseries_step", form_data)


def cumulative(
    title: str,
    dataset: Dataset,
    x: str,
    x_title: str,
    y_title: str,
    where: str = "",
    x_max: float | None = None,
    by: Sequence[str] = SERIES,
) -> Chart:
    """Return a cumulative distribution: each series' share up to the upper edge of each bin.

    by: columns whose values have a series each.
    x_max: end of the axis; None: the last edge.
    """
    form_data = {
        **_axes(x, by, ["share"], x_title, y_title, ".0%"),
        **STEP_LINE,
        "xAxisBounds": [0, x_max],
        "rolling_type": "cumsum",
        "y_axis_bounds": [0, 1],
        "truncateYAxis": True,
        "adhoc_filters": _filters(" and ".join([*filter(None, [where]), f"{x} is not null"])),
    }
    return Chart(title, dataset, "echarts_timeseries_step", form_data)


# The limit is above 1, because Superset leaves out a part that exceeds the axis by rounding.
AXIS_TO_100_PERCENT = {"y_axis_bounds": [0, 1.001], "truncateYAxis": True}
STEP_LINE = {
    "seriesType": "end",
    "markerEnabled": False,
    "xAxisForceCategorical": False,
    # The axis ends at the edge of the last bin, because no value lies beyond it.
    "truncateXAxis": True,
    "xAxisBounds": [0, None],
}


# The legend has two lines at the top. At the right it would take half of a narrow chart.
LEGEND = {"legendType": "plain", "legendOrientation": "top", "legendMargin": 48}


def _axes(
    x: str, by: Sequence[str], metrics: Sequence[str], x_title: str, y_title: str, number: str
) -> FormData:
    return {
        "x_axis": x,
        "x_axis_sort": x,
        "x_axis_sort_asc": True,
        "groupby": list(by),
        "metrics": list(metrics),
        "x_axis_title": x_title,
        "x_axis_title_margin": 30 if x_title else 0,
        "y_axis_title": y_title,
        "y_axis_title_margin": 50,
        "y_axis_title_position": "Left",
        "y_axis_format": number,
        "x_axis_number_format": ".4~r",
        "truncate_metric": True,
        "show_legend": True,
        **LEGEND,
        "rich_tooltip": True,
        "sort_series_type": "name",
        "sort_series_ascending": True,
        "row_limit": MAX_ROWS,
        "order_desc": True,
        "xAxisLabelInterval": "auto",
        "color_scheme": COLOUR_SCHEME,
    }


DATE_RANGE_FILTER = {
    "expressionType": "SIMPLE",
    "clause": "WHERE",
    "subject": "date",
    "operator": "TEMPORAL_RANGE",
    "comparator": "No filter",
}
"""Filter of a chart that Superset replaces by the dates of the dashboard."""


def _filters(where: str = "", having: str = "") -> list[FormData]:
    clauses = [("WHERE", where), ("HAVING", having)]
    return [DATE_RANGE_FILTER] + [
        {"expressionType": "SQL", "clause": clause, "sqlExpression": sql}
        for clause, sql in clauses
        if sql
    ]


def _sql_metric(sql: str, label: str) -> FormData:
    return {"expressionType": "SQL", "sqlExpression": sql, "label": label, "hasCustomLabel": True}
