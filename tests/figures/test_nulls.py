"""The contract between tables and marts: whichever nullable columns of a row are null, every mart,
section, chart and query is made. A column that a mart must not meet as null is `required`."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import combinations, product
from random import Random
from types import SimpleNamespace

import pytest
from conftest import DAY, ask

from schemas import Column, Table
from spark_jobs.base.errors import WITHHELD, withheld_lines
from spark_jobs.dashboards.example_queries import example_queries
from spark_jobs.figures.tables import MARTS
from spark_jobs.ingest.networks import publish_network
from spark_jobs.jobs.marts import update_marts
from spark_jobs.report.build import write_report
from spark_jobs.report.why import explanation
from spark_jobs.tables.mart_rows import INPUTS
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.made_up import publish
from tests.helpers.report_and_dashboards import CHARTS, ReportAndDashboards, chart_keys

BY_TYPE = {
    "string": "x", "bool": True, "double": 0.5, "date32[day]": DAY,
    "timestamp[us, tz=UTC]": datetime(2004, 3, 2, 10, tzinfo=UTC),
}  # fmt: skip
VALUES = {
    "initiator": "mobile", "directions_seen": "both", "side": "access", "user": "10.64.0.1",
    "link": "10.64.0.1", "server": "192.0.2.1", "begin_seen": True, "single": True,
    "request_response": True,
    "payload_bytes_down": 200_000, "data_packets_down": 150, "goodput": 1e5, "parallel": 2,
    "max_ip_len": 1500, "max_window": 65_535, "retransmissions": 2, "limited_by": "channel",
    "setup_class": "optimal", "mss_class": "high", "window_class": "high", "cause": "fast",
    "spin": "spins", "throughput": 1e5, "ip_bytes_down": 210_000, "b_tcp": 900, "b_other": 100,
    "segments": 3,
}  # fmt: skip
"""Values with which a row reaches all marts."""


def nullable(table: Table) -> list[Column]:
    return [column for column in table.columns if not column.required]


def covering_array(names: list[str]) -> Iterator[set[str]]:
    """Yield sets of columns to be null, until each pair was null and not null in all four ways."""
    random = Random(1)
    wanted = {
        (*pair, *nulls) for pair in combinations(names, 2) for nulls in product((0, 1), repeat=2)
    }
    while wanted:
        tried = [{name for name in names if random.random() < 0.5} for _ in range(20)]
        covered = [
            {(a, b, a in nulls, b in nulls) for a, b in combinations(names, 2)} & wanted
            for nulls in tried
        ]
        best = max(range(20), key=lambda n: len(covered[n]))
        wanted -= covered[best]
        if covered[best]:
            yield tried[best]


def null_sets(table: Table) -> list[set[str]]:
    """Return sets of columns to be null: none, all, each alone, and the covering array."""
    names = [column.name for column in nullable(table)]
    return [set(), set(names), *({name} for name in names), *covering_array(names)]


def usual_row(demo_warehouse: Warehouse, table: Table) -> dict:
    """Return a row without nulls: each column has the first value that the demo has of it."""
    firsts = ", ".join(f'any_value("{c.name}" order by "{c.name}")' for c in table.columns)
    [found] = ask(demo_warehouse, f"select {firsts} from {table.name}").fetchall()
    return {
        column.name: VALUES.get(
            column.name, BY_TYPE.get(column.type, 1) if value is None else value
        )
        for column, value in zip(table.columns, found, strict=True)
    }


@pytest.fixture(scope="module")
def with_nulls(demo, networks, tmp_path_factory) -> Warehouse:
    """Make a network and day for each set, so that no other row hides what is null."""
    warehouse = Warehouse(tmp_path_factory.mktemp("nulls") / "w")
    usual = {table: usual_row(demo.warehouse, table) for table in INPUTS}
    sets = {table: null_sets(table) for table in INPUTS}
    for number in range(max(map(len, sets.values()))):
        name, day = f"n{number % 40}", DAY + timedelta(number // 40)
        if number < 40:
            publish_network(warehouse, networks["aa-gprs"].model_copy(update={"name": name}))
        moved = timedelta(number // 40)
        publish(
            warehouse, name, day,
            {
                table: [
                    {
                        column: None if column in nulls
                        else value + moved if isinstance(value, datetime) else value
                        for column, value in usual[table].items()
                    }
                    | {"flow_id": number}
                    for nulls in [sets[table][number % len(sets[table])]]
                ]
                for table in INPUTS
            },
        )  # fmt: skip
    withheld_lines.clear()
    update_marts(warehouse)
    assert withheld_lines == []
    return warehouse


def test_every_mart_is_made(with_nulls):
    assert [mart.name for mart in MARTS if not with_nulls.files(mart)] == []


def test_every_section_and_chart_is_made(with_nulls, tmp_path):
    pages = ReportAndDashboards(with_nulls, tmp_path)
    assert withheld_lines == []
    for chart in CHARTS:
        if chart_keys(chart):
            pages.answer(chart)
        else:
            pages.selection.connection.sql(chart.dataset.sql).fetchall()


def test_a_report_of_each_network_is_made(with_nulls, tmp_path):
    """Alone on a page, a network's unknown values meet no others."""
    for name in ("n0", "n1", "n2", "n39"):
        text = write_report(with_nulls, tmp_path / "r.html", [name]).read_text()
        assert WITHHELD not in text, name


def test_every_connection_is_explained(with_nulls):
    flows = with_nulls.connect().sql("from flows").to_arrow_table().to_pylist()
    stalls = with_nulls.connect().sql("from stalls").to_arrow_table()
    sent = with_nulls.connect().sql("from retransmissions").to_arrow_table()
    for n, flow in enumerate(flows):
        few = {
            "stalls": stalls.slice(n % len(stalls), 3),
            "retransmissions": sent.slice(n % len(sent), 3),
        }
        assert len(explanation(SimpleNamespace(flow=flow, **few))) == 5


def test_every_query_of_the_docs_runs(with_nulls):
    connection = with_nulls.connect()
    queries = [example.sql for example in example_queries()]
    assert len(queries) > 10
    for query in queries:
        connection.execute(query).fetchall()
