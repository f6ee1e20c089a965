"""Write the files of Superset's import: `python -m spark_jobs.dashboards.assets FILE`.

They are in one JSON file, which `infra/superset/load.py` reads: each file's text by its path, and
the alerts as `alerts`.
Superset expects YAML, which JSON is a part of.
"""

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from spark_jobs.dashboards.example_queries import Example, example_queries
from spark_jobs.dashboards.pages import DASHBOARD
from spark_jobs.dashboards.performance_alerts import alerts
from spark_jobs.dashboards.query_context import COLUMNS, listed, query_context
from spark_jobs.dashboards.templates import to_superset_template
from spark_jobs.figures.colours import SERIES_COLOURS
from spark_jobs.figures.dashboard_parts import (
    COLOUR_SCHEME,
    SERIES,
    Chart,
    Dashboard,
    Dataset,
    DateFilter,
    Metric,
    Text,
    ValueFilter,
)
from spark_jobs.figures.statistics import MIN_SAMPLES, MIN_USERS
from spark_jobs.figures.tables import TABLES
from spark_jobs.warehouse.store import Warehouse

Columns = dict[str, dict[str, str]]
"""The columns of each dataset with their types, by its name."""
GRID_COLUMNS = 12
VERSION = "1.0.0"
READ_ONLY_DATABASE = {
    "allow_run_async": False,
    "allow_ctas": False,
    "allow_cvas": False,
    "allow_dml": False,
    "allow_file_upload": False,
    "extra": {"allows_virtual_table_explore": False},
}
DATABASES = {
    "analysis": {"sqlalchemy_uri": "duckdb:///analysis.duckdb", "expose_in_sqllab": True},
    "giscope": {"sqlalchemy_uri": "duckdb:///warehouse.duckdb", "expose_in_sqllab": False},
}
"""The database of SQL Lab, and that of the pages. SQL Lab opens with the one imported first.

superset_config.py connects both to the published warehouse, whatever the path in the address.
"""
DESCRIPTION = (
    "About {}. The chart has no rows if there are none of them in the selected networks, days and "
    f"hours, or too few (fewer than {MIN_SAMPLES}, or of fewer than {MIN_USERS} users). The page "
    "Overview shows which days have data."
)
HEADINGS = {
    "title": "metric",
    "shown": "shown on the pages",
    "users": "number of users",
}
"""Heading of a column of any dataset, if it is not the column's name."""


def assets() -> dict[str, dict[str, Any]]:
    """Return the content of each file by its path."""
    charts = DASHBOARD.charts
    datasets = {
        part.dataset.name: part.dataset
        for part in (*charts, *DASHBOARD.filters)
        if not isinstance(part, DateFilter)
    }
    with tempfile.TemporaryDirectory() as empty:
        connection = Warehouse(Path(empty)).connect()
        rows = {name: connection.sql(dataset.sql) for name, dataset in datasets.items()}
        columns = {
            name: dict(zip(relation.columns, map(str, relation.types), strict=True))
            for name, relation in rows.items()
        }
    return {
        "metadata.yaml": {"version": VERSION, "type": "assets"},
        **{
            f"databases/{name}.yaml": _with_identity(
                "database", name, {"database_name": name, **content, **READ_ONLY_DATABASE}
            )
            for name, content in DATABASES.items()
        },
        **{
            f"datasets/giscope/{name}.yaml": _dataset(dataset, columns[name])
            for name, dataset in datasets.items()
        },
        **{f"charts/{_slug(chart.title)}.yaml": _chart(chart) for chart in charts},
        f"dashboards/{DASHBOARD.slug}.yaml": _dashboard(DASHBOARD, columns),
        **{
            f"queries/{_slug(example.question)}.yaml": _saved_query(example)
            for example in example_queries()
        },
    }


def _column_meanings(sql: str) -> dict[str, str]:
    """Return the meanings of the columns of the tables that a dataset reads."""
    return {
        column.name: column.comment
        for name, table in TABLES.items()
        if re.search(rf"\b{name}\b", sql)
        for column in (*table.partitions, *table.columns)
    }


def _dataset(dataset: Dataset, columns: dict[str, str]) -> dict[str, Any]:
    meanings, headings = _column_meanings(dataset.sql), HEADINGS | dataset.headings
    return _with_identity(
        "dataset",
        dataset.name,
        {
            "table_name": dataset.name,
            "database_uuid": _uuid("database", "giscope"),
            "sql": to_superset_template(re.sub(r"[ \n]+\n", "\n", dataset.sql.strip())),
            "main_dttm_col": "date",
            "filter_select_enabled": True,
            "always_filter_main_dttm": False,
            "columns": [
                _column(name, headings.get(name), type_, meanings.get(name))
                for name, type_ in columns.items()
            ],
            "metrics": [_metric(metric) for metric in dataset.metrics],
        },
    )


def _column(name: str, heading: str | None, type_: str, meaning: str | None) -> dict[str, Any]:
    return {
        "column_name": name,
        "verbose_name": heading,
        "type": type_,
        "is_dttm": type_ in ("DATE", "TIMESTAMP WITH TIME ZONE"),
        "is_active": True,
        "groupby": True,
        "filterable": True,
        "description": meaning,
    }


def _metric(metric: Metric) -> dict[str, Any]:
    return {
        "metric_name": metric.name,
        "verbose_name": metric.label,
        "expression": metric.sql,
        "d3format": metric.format,
    }


def _chart(chart: Chart) -> dict[str, Any]:
    return _with_identity(
        "chart",
        chart.title,
        {
            "slice_name": chart.title,
            "description": " ".join(
                [chart.caption, chart.description or DESCRIPTION.format(chart.dataset.measured)]
            ).strip(),
            "viz_type": chart.kind,
            "params": {"viz_type": chart.kind, **chart.form_data},
            "query_context": json.dumps(query_context(chart)),
            "dataset_uuid": _uuid("dataset", chart.dataset.name),
        },
    )


def _saved_query(example: Example) -> dict[str, Any]:
    return _with_identity(
        "query",
        example.question,
        {
            "label": example.question,
            "description": f"From docs/queries.md, {example.section}",
            "sql": example.sql,
            "schema": "main",
            "database_uuid": _uuid("database", "analysis"),
        },
    )


def _dashboard(dashboard: Dashboard, columns: Columns) -> dict[str, Any]:
    return _with_identity(
        "dashboard",
        dashboard.slug,
        {
            "dashboard_title": dashboard.title,
            "slug": dashboard.slug,
            "published": True,
            "position": _position(dashboard),
            "metadata": {
                "color_scheme": COLOUR_SCHEME,
                "label_colors": {**SERIES_COLOURS, **dashboard.colours},
                "cross_filters_enabled": True,
                "chart_configuration": dict(_cross_filters(dashboard, columns)),
                "native_filter_configuration": list(_filters(dashboard, columns)),
            },
        },
    )


def _position(dashboard: Dashboard) -> dict[str, Any]:
    """Return the layout: rows of charts in tabs. The charts of a row share the width."""
    components = {
        "ROOT_ID": _component("ROOT_ID", "ROOT", []),
        "GRID_ID": _component("GRID_ID", "GRID", ["ROOT_ID"]),
        "HEADER_ID": _component("HEADER_ID", "HEADER", [], text=dashboard.title),
    }

    def add(kind: str, name: str, parents: Sequence[str], **meta: Any) -> list[str]:
        """Add a component to its parent; return the parents of its own children."""
        key = f"{kind}-{name}"
        components[key] = _component(key, kind, parents, **meta)
        components[parents[-1]]["children"].append(key)
        return [*parents, key]

    components["ROOT_ID"]["children"].append("GRID_ID")
    tabs = add("TABS", "tabs", ["ROOT_ID", "GRID_ID"])
    numbers = count(1)
    for tab in dashboard.tabs:
        in_tab = add("TAB", tab.key, tabs, text=tab.title)
        for n, row in enumerate(tab.rows):
            in_row = add("ROW", f"{tab.key}-{n}", in_tab, background="BACKGROUND_TRANSPARENT")
            free_columns = GRID_COLUMNS - sum(part.width for part in row)
            shared_width = free_columns // max(sum(not part.width for part in row), 1)
            height = max(part.height for part in row)
            for k, part in enumerate(row):
                size = {"width": part.width or shared_width, "height": height}
                if isinstance(part, Text):
                    add("MARKDOWN", f"{tab.key}-{n}-{k}", in_row, code=part.text.strip(), **size)
                    continue
                number = next(numbers)
                identity = {"uuid": _uuid("chart", part.title), "sliceName": part.title}
                add("CHART", f"{number}", in_row, chartId=number, **identity, **size)
    return {"DASHBOARD_VERSION_KEY": "v2", **components}


def _component(key: str, kind: str, parents: Sequence[str], **meta: Any) -> dict[str, Any]:
    """Return a part of the layout without children."""
    return {"id": key, "type": kind, "parents": [*parents], "children": [], "meta": meta}


def _filters(dashboard: Dashboard, columns: Columns) -> Iterator[dict[str, Any]]:
    """Yield the filters; they name charts by their numbers in the layout.

    A chart whose dataset has neither a filter's column nor its template is left out: Superset would
    mark it with a warning.
    """
    for of_charts in dashboard.filters:
        column = "date" if isinstance(of_charts, DateFilter) else of_charts.column
        configuration = (
            {**_filter("date", "Dates (UTC)", "filter_time"), "targets": [{}]}
            if isinstance(of_charts, DateFilter)
            else _value_filter(of_charts)
        )
        configuration["scope"]["excluded"] = [
            number
            for number, chart in enumerate(dashboard.charts, 1)
            if (of_charts.charts and chart.title not in of_charts.charts)
            or not (
                column in columns[chart.dataset.name]
                or f"get_filters('{column}'" in to_superset_template(chart.dataset.sql)
            )
        ]
        yield configuration


def _cross_filters(dashboard: Dashboard, columns: Columns) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield, by a chart's number in the layout, the charts that a click on it filters.

    All charts have the columns of the page's filters. A column of another name means something
    else in another dataset: a click on one of its values would leave no rows.
    """
    of_filters = {"date", *SERIES} | {
        of_charts.column for of_charts in dashboard.filters if isinstance(of_charts, ValueFilter)
    }
    numbered = list(enumerate(dashboard.charts, 1))
    for number, chart in numbered:
        axis, *settings = ([*listed(chart.form_data.get(setting))] for setting in COLUMNS)
        sent = {name for names in settings for name in names} or {*axis}
        excluded = [
            other
            for other, shown in numbered
            if other == number
            or (
                shown.dataset.name != chart.dataset.name
                and (sent - of_filters) & columns[shown.dataset.name].keys()
            )
        ]
        scope = {"rootPath": ["ROOT_ID"], "excluded": excluded}
        yield str(number), {"id": number, "crossFilters": {"scope": scope, "chartsInScope": []}}


def _filter(column: str, name: str, kind: str) -> dict[str, Any]:
    return {
        "id": f"NATIVE_FILTER-{column}",
        "name": name,
        "type": "NATIVE_FILTER",
        "filterType": kind,
        "controlValues": {"enableEmptyFilter": False},
        "defaultDataMask": {"extraFormData": {}, "filterState": {}, "ownState": {}},
        "cascadeParentIds": [],
        "scope": {"rootPath": ["ROOT_ID"], "excluded": []},
        "description": "",
    }


def _value_filter(value_filter: ValueFilter) -> dict[str, Any]:
    column, selected = value_filter.column, list(value_filter.selected)
    configuration = _filter(value_filter.key or column, value_filter.name, "filter_select")
    configuration["targets"] = [
        {"datasetUuid": _uuid("dataset", value_filter.dataset.name), "column": {"name": column}}
    ]
    configuration["controlValues"] |= {
        "multiSelect": not value_filter.single,
        "enableEmptyFilter": value_filter.single,
        "searchAllOptions": False,
        "creatable": False,
        "sortAscending": True,
        "defaultToFirstItem": value_filter.select_first,
    }
    if value_filter.select_first:
        configuration["requiredFirst"] = {"defaultToFirstItem": True}
    configuration["cascadeParentIds"] = [
        f"NATIVE_FILTER-{parent}" for parent in value_filter.narrowed_by
    ]
    if selected:
        configuration["defaultDataMask"] = {
            "extraFormData": {"filters": [{"col": column, "op": "IN", "val": selected}]},
            "filterState": {"value": selected, "label": ", ".join(selected)},
            "ownState": {},
        }
    return configuration


def _uuid(kind: str, name: str) -> str:
    """Return an identifier that is always the same: an import replaces what has the same one."""
    return str(uuid5(NAMESPACE_URL, f"giscope/{kind}/{name}"))


def _with_identity(kind: str, name: str, content: dict[str, Any]) -> dict[str, Any]:
    return {**content, "uuid": _uuid(kind, name), "version": VERSION}


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")


if __name__ == "__main__":
    files = {path: json.dumps(content) for path, content in assets().items()}
    Path(sys.argv[1]).write_text(json.dumps({**files, "alerts": alerts()}), encoding="utf-8")
