"""Writes the dashboards as YAML for Superset's import: python -m infra.superset.assets."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import yaml

from infra.superset.colours import NETWORKS_COLOURS
from infra.superset.dashboards import DASHBOARDS
from infra.superset.intervals import templated
from infra.superset.parts import (
    COLOUR_SCHEME,
    Chart,
    Choice,
    Dashboard,
    Dataset,
    Dates,
    Metric,
    Text,
)
from schemas import TABLES
from spark_jobs.warehouse import Warehouse

FOLDER = Path(__file__).parent / "assets"
GRID_COLUMNS = 12
VERSION = "1.0.0"
ONLY_ASKED = {
    "allow_run_async": False,
    "allow_ctas": False,
    "allow_cvas": False,
    "allow_dml": False,
    "allow_file_upload": False,
    "extra": {"allows_virtual_table_explore": False},
}
# What they are superset_config.py says.
DATABASES = {
    "giscope": {"sqlalchemy_uri": "duckdb:///warehouse.duckdb", "expose_in_sqllab": False},
    "analysis": {"sqlalchemy_uri": "duckdb:///analysis.duckdb", "expose_in_sqllab": True},
}
"""The pages', and the one of SQL Lab."""
HEADINGS = {
    "title": "metric",
    "amiss": "what is amiss",
    "shown": "what the pages show",
    "users": "of how many users",
}


def assets() -> dict[str, dict[str, Any]]:
    """Each file's path in FOLDER, and what it holds."""
    charts = [chart for page in DASHBOARDS for chart in page.charts]
    datasets = {chart.dataset.name: chart.dataset for chart in charts}
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
            f"databases/{name}.yaml": _identified(
                "database", name, {"database_name": name, **content, **ONLY_ASKED}
            )
            for name, content in DATABASES.items()
        },
        **{
            f"datasets/giscope/{name}.yaml": _dataset(dataset, columns[name])
            for name, dataset in datasets.items()
        },
        **{f"charts/{_slug(chart.title)}.yaml": _chart(chart) for chart in charts},
        **{f"dashboards/{page.slug}.yaml": _dashboard(page) for page in DASHBOARDS},
    }


def _meanings(sql: str) -> dict[str, str]:
    """Of the columns of the tables that a dataset reads."""
    return {
        column.name: column.comment
        for name, table in TABLES.items()
        if re.search(rf"\b{name}\b", sql)
        for column in (*table.partitions, *table.columns)
    }


def _dataset(dataset: Dataset, columns: dict[str, str]) -> dict[str, Any]:
    meanings = _meanings(dataset.sql)
    return _identified(
        "dataset",
        dataset.name,
        {
            "table_name": dataset.name,
            "database_uuid": _uuid("database", "giscope"),
            "sql": templated(re.sub(r"[ \n]+\n", "\n", dataset.sql.strip())),
            "main_dttm_col": "date",
            "filter_select_enabled": True,
            "always_filter_main_dttm": False,
            "columns": [
                _column(name, type_, meanings.get(name)) for name, type_ in columns.items()
            ],
            "metrics": [_metric(metric) for metric in dataset.metrics],
        },
    )


def _column(name: str, type_: str, meaning: str | None) -> dict[str, Any]:
    return {
        "column_name": name,
        "verbose_name": HEADINGS.get(name),
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
    return _identified(
        "chart",
        chart.title,
        {
            "slice_name": chart.title,
            "viz_type": chart.kind,
            "params": {"viz_type": chart.kind, **chart.form},
            "dataset_uuid": _uuid("dataset", chart.dataset.name),
        },
    )


def _dashboard(page: Dashboard) -> dict[str, Any]:
    return _identified(
        "dashboard",
        page.slug,
        {
            "dashboard_title": page.title,
            "slug": page.slug,
            "published": True,
            "position": _position(page),
            "metadata": {
                "color_scheme": COLOUR_SCHEME,
                "label_colors": {**NETWORKS_COLOURS, **page.colours},
                "cross_filters_enabled": False,
                "native_filter_configuration": list(_filters(page)),
            },
        },
    )


def _position(page: Dashboard) -> dict[str, Any]:
    """The layout: a row of charts shares the width."""
    rows = {f"ROW-{n}": row for n, row in enumerate(page.rows, 1)}
    placed: dict[str, Any] = {
        "DASHBOARD_VERSION_KEY": "v2",
        "ROOT_ID": {"id": "ROOT_ID", "type": "ROOT", "children": ["GRID_ID"]},
        "GRID_ID": {
            "id": "GRID_ID",
            "type": "GRID",
            "parents": ["ROOT_ID"],
            "children": list(rows),
        },
        "HEADER_ID": {"id": "HEADER_ID", "type": "HEADER", "meta": {"text": page.title}},
    }
    number = 0
    texts = 0
    for row_id, row in rows.items():
        parents = ["ROOT_ID", "GRID_ID"]
        names = []
        left = GRID_COLUMNS - sum(part.width for part in row)
        shared = left // max(sum(not part.width for part in row), 1)
        for part in row:
            meta: dict[str, Any] = {
                "width": part.width or shared,
                "height": max(other.height for other in row),
            }
            if isinstance(part, Text):
                texts += 1
                name, kind = f"MARKDOWN-{texts}", "MARKDOWN"
                meta["code"] = part.text.strip()
            else:
                number += 1
                name, kind = f"CHART-{number}", "CHART"
                meta |= {
                    "chartId": number,
                    "uuid": _uuid("chart", part.title),
                    "sliceName": part.title,
                }
            names.append(name)
            placed[name] = {
                "id": name,
                "type": kind,
                "children": [],
                "parents": [*parents, row_id],
                "meta": meta,
            }
        placed[row_id] = {
            "id": row_id,
            "type": "ROW",
            "children": names,
            "parents": parents,
            "meta": {"background": "BACKGROUND_TRANSPARENT"},
        }
    return placed


def _filters(page: Dashboard) -> Iterator[dict[str, Any]]:
    """The page's filters; charts are known by their place on the page, as in its layout."""
    titles = [chart.title for chart in page.charts]
    for chosen in page.filters:
        if isinstance(chosen, Dates):
            made = {**_filter("date", "Dates (UTC)", "filter_time"), "targets": [{}]}
            apart = list(chosen.apart)
        else:
            made = _choice(chosen)
            apart = [t for t in titles if t not in chosen.charts] if chosen.charts else []
        made["scope"]["excluded"] = [titles.index(title) + 1 for title in apart]
        yield made


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


def _choice(choice: Choice) -> dict[str, Any]:
    column, chosen = choice.column, list(choice.chosen)
    made = _filter(choice.key or column, choice.name, "filter_select")
    made["targets"] = [
        {"datasetUuid": _uuid("dataset", choice.dataset.name), "column": {"name": column}}
    ]
    made["controlValues"] |= {
        "multiSelect": not choice.single,
        "enableEmptyFilter": choice.single,
        "searchAllOptions": False,
        "sortAscending": True,
        "defaultToFirstItem": choice.first,
    }
    if choice.first:
        made["requiredFirst"] = {"defaultToFirstItem": True}
    made["cascadeParentIds"] = [f"NATIVE_FILTER-{parent}" for parent in choice.narrowed_by]
    if chosen:
        made["defaultDataMask"] = {
            "extraFormData": {"filters": [{"col": column, "op": "IN", "val": chosen}]},
            "filterState": {"value": chosen, "label": ", ".join(chosen)},
            "ownState": {},
        }
    return made


def _uuid(kind: str, name: str) -> str:
    """The same at every writing, so that an import replaces what an earlier one made."""
    return str(uuid5(NAMESPACE_URL, f"giscope/{kind}/{name}"))


def _identified(kind: str, name: str, content: dict[str, Any]) -> dict[str, Any]:
    return {**content, "uuid": _uuid(kind, name), "version": VERSION}


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def written() -> dict[str, str]:
    """Each file's text."""
    return {
        path: yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
        for path, content in assets().items()
    }


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    for path, text in written().items():
        (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
