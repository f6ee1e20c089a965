"""The rows of charts, for Superset's API, which runs a chart outside of a page by its saved query.

What a browser makes of the rows, such as shares and cumulative sums, is not part of the query.
"""

import json
from typing import Any

from spark_jobs.figures.dashboard_parts import Chart

COLUMNS = ("x_axis", "groupby", "groupbyColumns", "groupbyRows", "all_columns")
"""Settings that name the columns of a chart's rows."""


def query_context(chart: Chart) -> dict[str, Any]:
    """Return the query of a chart's rows, without the filters of a page.

    The import adds the chart's dataset.
    """
    settings = chart.form_data
    filters = settings["adhoc_filters"]
    metrics = listed(settings.get("metrics") or settings.get("metric"))
    columns = [column for name in COLUMNS for column in listed(settings.get(name))]
    orders = [json.loads(order) for order in settings.get("order_by_cols", ())]
    if order := settings.get("timeseries_limit_metric"):
        orders.append([order, not settings["order_desc"]])
    query = {
        "columns": columns,
        "orderby": orders or [[column, True] for column in columns],
        "filters": [
            {"col": part["subject"], "op": part["operator"], "val": part["comparator"]}
            for part in filters
            if part["expressionType"] == "SIMPLE"
        ],
        "extras": {
            clause.lower(): " AND ".join(
                f"({part['sqlExpression']})"
                for part in filters
                if part["clause"] == clause and part["expressionType"] == "SQL"
            )
            for clause in ("HAVING", "WHERE")
        },
        "row_limit": settings["row_limit"],
    }
    return {
        "datasource": None,
        "force": False,
        "queries": [query | ({"metrics": metrics} if metrics else {})],
        "form_data": {"viz_type": chart.kind, **settings},
        "result_format": "json",
        "result_type": "full",
    }


def listed(names: str | list[str] | None) -> list[str]:
    """Return a setting's names as a list."""
    return [names] if isinstance(names, str) else list(names or ())
