"""The queries of charts, as Superset's pages make them of a chart's settings.

Superset runs a chart outside of a page, for its API, an alert or a report, only if the chart has
its query saved. Superset's own functions that make it (buildQuery of each kind of chart) run in
browsers only. These do the same for the settings in spark_jobs/figures/charts.py; a test compares
them with a browser's requests.
"""

import json
from typing import Any

from spark_jobs.figures.dashboard_parts import Chart, FormData


def query_context(chart: Chart) -> dict[str, Any]:
    """Return the query of a chart, without the filters of a page; the import adds its dataset."""
    settings = chart.form_data
    if chart.kind.startswith("echarts_timeseries_"):
        query = _series(settings)
    else:
        query = QUERIES[chart.kind](settings)
    return {
        "datasource": None,
        "force": False,
        "queries": [
            {
                **_filters(settings),
                "applied_time_extras": {},
                "annotation_layers": [],
                "series_limit": 0,
                "group_others_when_limit_reached": False,
                "order_desc": settings.get("order_desc", True),
                "url_params": {},
                "custom_params": {},
                "custom_form_data": {},
                **({"row_limit": settings["row_limit"]} if "row_limit" in settings else {}),
                **query,
            }
        ],
        "form_data": {"viz_type": chart.kind, **settings},
        "result_format": "json",
        "result_type": "full",
    }


def _filters(settings: FormData) -> dict[str, Any]:
    filters = settings["adhoc_filters"]
    extras = {
        clause.lower(): " AND ".join(
            f"({part['sqlExpression']})"
            for part in filters
            if part["expressionType"] == "SQL" and part["clause"] == clause
        )
        for clause in ("HAVING", "WHERE")
    }
    if "time_grain_sqla" in settings:
        extras["time_grain_sqla"] = settings["time_grain_sqla"]
    simple = [
        {"col": part["subject"], "op": part["operator"], "val": part["comparator"]}
        for part in filters
        if part["expressionType"] == "SIMPLE"
    ]
    return {"filters": simple, "extras": extras}


def _table(settings: FormData) -> dict[str, Any]:
    processing: dict[str, Any] = {"post_processing": [], "time_offsets": []}
    if settings["query_mode"] == "raw":
        orders = [json.loads(order) for order in settings["order_by_cols"]]
        return {"columns": settings["all_columns"], "orderby": orders, **processing}
    order = settings["timeseries_limit_metric"]
    return {
        "columns": settings["groupby"],
        "metrics": settings["metrics"],
        "orderby": [[order, not settings["order_desc"]]],
        "series_limit_metric": order,
        **processing,
    }


def _pivot_table(settings: FormData) -> dict[str, Any]:
    metrics = settings["metrics"]
    return {
        "columns": [*settings["groupbyColumns"], *settings["groupbyRows"]],
        "metrics": metrics,
        "orderby": [[metrics[0], not settings["order_desc"]]],
    }


def _heat_map(settings: FormData) -> dict[str, Any]:
    x, y, metric = settings["x_axis"], settings["groupby"], settings["metric"]
    return {
        "columns": [_axis(settings), y],
        "metrics": [metric],
        "orderby": [
            [x, settings["sort_x_axis"] == "alpha_asc"],
            [y, settings["sort_y_axis"] == "alpha_asc"],
        ],
        "post_processing": [{"operation": "rank", "options": {"metric": metric}}],
    }


QUERIES = {
    "table": _table,
    "pivot_table_v2": _pivot_table,
    "heatmap_v2": _heat_map,
}
"""Functions that return what a chart asks for, by its kind; _series is for kinds of series."""


def _series(settings: FormData) -> dict[str, Any]:
    """Return what lines, bars and steps ask for: one metric, a column for each series."""
    [metric], series = settings["metrics"], settings["groupby"]
    pivot = {
        "index": [settings["x_axis"]],
        "columns": series,
        "aggregates": {metric: {"operator": "mean"}},
        "drop_missing_columns": False,
    }
    steps = [("pivot", pivot)]
    if "rolling_type" in settings:
        steps.append(("cum", {"operator": "sum", "columns": {metric: metric}}))
    steps.append(("rename", {"columns": {metric: None}, "level": 0, "inplace": True}))
    if "contributionMode" in settings:
        share = {"orientation": settings["contributionMode"], "time_shifts": []}
        steps.append(("contribution", share))
    return {
        "columns": [_axis(settings), *series],
        "metrics": [metric],
        "orderby": [[metric, not settings["order_desc"]]],
        "series_columns": series,
        "time_offsets": [],
        "post_processing": [
            *({"operation": name, "options": options} for name, options in steps),
            {"operation": "flatten"},
        ],
    }


def _axis(settings: FormData) -> dict[str, Any]:
    grain = settings.get("time_grain_sqla")
    return {
        **({"timeGrain": grain} if grain else {}),
        "columnType": "BASE_AXIS",
        "sqlExpression": settings["x_axis"],
        "label": settings["x_axis"],
        "expressionType": "SQL",
        "isColumnReference": True,
    }
