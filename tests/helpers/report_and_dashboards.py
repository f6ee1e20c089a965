"""A warehouse's report and dashboards as they show it, and its tables in pandas."""

import json
import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from schemas import FLOWS, Table
from spark_jobs.dashboards.pages import DASHBOARD
from spark_jobs.figures.dashboard_parts import Chart
from spark_jobs.figures.names import PERIODS
from spark_jobs.report.build import write_report
from spark_jobs.report.selection import select
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.report_page import Page

CHARTS = DASHBOARD.charts
CONNECTION = ["network", "date", "flow_id"]
Shown = Callable[..., Any]
"""A function that returns what is shown, text or number, of the values of some columns."""


def hours_of(period: str) -> str:
    """Return a period's label."""
    return PERIODS[period][0]


def chart_named(title: str) -> Chart:
    """Return the chart whose title begins so."""
    [chart] = [chart for chart in CHARTS if chart.title.startswith(title)]
    return chart


def chart_keys(chart: Chart) -> list[str]:
    """Return the columns by which a chart shows its metrics."""
    named = ("x_axis", "groupby", "groupbyRows", "groupbyColumns")
    found = [chart.form_data.get(name, []) for name in named]
    return [key for keys in found for key in ([keys] if isinstance(keys, str) else keys)]


class ReportAndDashboards:
    """What the report and the dashboards show of a warehouse."""

    def __init__(self, warehouse: Warehouse, folder: Path) -> None:
        self.warehouse = warehouse
        self.selection = select(warehouse, None, None, None)
        self.networks = [network.name for network in self.selection.networks]
        self._tables: dict[str, pd.DataFrame] = {}
        report = write_report(warehouse, folder / "report.html")
        self._text = report.read_text(encoding="utf-8")
        self.page = Page(self._text)

    @cached_property
    def plots(self) -> dict[str, list[dict[str, Any]]]:
        """The plots of each section of the report."""
        found = r'<section id="([^"]+)">|<script type="application/json">(.*?)</script>'
        section, plots = "", {}
        for name, plot in re.findall(found, self._text, re.DOTALL):
            section = name or section
            if plot:
                plots.setdefault(section, []).append(json.loads(plot))
        return plots

    @cached_property
    def sections(self) -> list[str]:
        """The anchors of the report's sections."""
        return re.findall(r'<section id="([^"]+)">', self._text)

    def printed(self, section: str, *first: str, cell: int, columns: int = 0) -> Shown:
        """Return a function that returns a cell of the report's row that begins with these texts.

        cell: its place after the texts and keys. columns: of the table, if the row is in several.
        """

        def text(*key: str) -> str:
            beginning = [*first, *key]
            [row] = [
                row
                for row in self.page.rows[section]
                if row[: len(beginning)] == beginning and columns in (0, len(row))
            ]
            return row[len(beginning) + cell]

        return text

    def printed_by_network(self, section: str, label: str) -> Shown:
        """Return a function that returns a network's cell of a row with a column a network."""
        cells = self.page.row(section, label)
        return lambda network: cells[self.networks.index(network)]

    def answer(self, chart: Chart, where: str = "true") -> pd.DataFrame:
        """Return what Superset draws in a chart: its columns, and its metrics by name.

        where: condition of the page's filters. A column `series` is divided into network and hours.
        """
        form = chart.form_data
        metrics = form["metrics"] if "metrics" in form else [form["metric"]]
        conditions = {"WHERE": where, "HAVING": "true"}
        for condition in form["adhoc_filters"]:
            if condition["expressionType"] == "SQL":
                conditions[condition["clause"]] += f" and {condition['sqlExpression']}"
        keys = [f'"{key}"' for key in chart_keys(chart)]
        selected = [f'{chart.dataset.metric(name).sql} as "{name}"' for name in metrics]
        rows = self.selection.connection.sql(f"""
            select {", ".join([*keys, *selected])} from ({chart.dataset.sql})
            where {conditions["WHERE"]} group by {", ".join(keys)} having {conditions["HAVING"]}
        """).df()  # fmt: skip
        if "series" in rows:
            rows[["network", "hours"]] = rows["series"].str.extract(r"([^\s,]+), (.+)")
        return rows

    def chart(self, title: str, metric: str, *keys: str, where: str = "true") -> pd.Series:
        """Return a chart's metric by some columns."""
        rows = self.answer(chart_named(title), where)
        if "date" in rows:
            rows["date"] = rows["date"].astype(str)
        return rows.set_index([*keys])[metric].sort_index()

    def table(self, table: Table, time: str = "start_ts") -> pd.DataFrame:
        """Return the rows of a table's files, with network, date, and local hour(s) of a time."""
        if table.name not in self._tables:
            networks = (
                self.selection.connection.sql("""
                select distinct networks.network, timezone, columns('peak_(from|until)')
                from networks join peak_hours using (network)
            """)
                .df()
                .set_index("network")
            )
            frames = []
            for path in self.warehouse.files(table):
                network, day = (path.parts[place].partition("=")[2] for place in (-3, -2))
                facts = networks.loc[network]
                rows = pq.read_table(path, partitioning=None).to_pandas()
                hour = rows[time].dt.tz_convert(facts["timezone"]).dt.hour
                hours = [
                    hour.between(facts[f"{period}_from"], facts[f"{period}_until"] - 1)
                    for period in ("peak", "off_peak")
                ]
                hours = np.select(
                    hours, [hours_of("peak"), hours_of("off_peak")], hours_of("other")
                )
                frames.append(rows.assign(network=network, date=day, hour=hour, hours=hours))
            self._tables[table.name] = pd.concat(frames, ignore_index=True)
        return self._tables[table.name]

    @property
    def flows(self) -> pd.DataFrame:
        """The connections that mobiles opened."""
        flows = self.table(FLOWS)
        return flows[flows["initiator"] == "mobile"]

    def with_flows(self, rows: pd.DataFrame, *columns: str) -> pd.DataFrame:
        """Return rows of another table with the user and other columns of their connections."""
        return rows.merge(self.table(FLOWS)[[*CONNECTION, "user", *columns]], on=CONNECTION)
