"""The views without held days, such as published_flows, for each reader of the tables."""

from datetime import date, timedelta
from pathlib import Path

import duckdb
import pytest
from conftest import DAY, Demo

from infra.superset.country_views import country_views_folder
from schemas import FLOWS, NETWORKS, QUALITY
from spark_jobs.engine.queries import run_query
from spark_jobs.engine.spark import spark_session
from spark_jobs.engine.spark_sql import register
from spark_jobs.figures.tables import TABLES
from spark_jobs.queries.limits import MEMORY, SUPERSET_SECONDS, Limits
from spark_jobs.queries.views import PUBLISHED
from spark_jobs.warehouse.storage import VIEWS
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit
from tests.helpers.made_up import flow, publish
from tests.helpers.small_warehouse import rows as networks_of

AA, BB = "aa-gprs", "bb-gprs"
GOOD, HELD, RELEASED, UNCHECKED = (DAY + timedelta(days=n) for n in range(4))
PASSED = {"measure": "peak_flows", "passed": True, "finding": "as usual"}
FAILED = {"measure": "volume_ratio", "passed": False, "finding": "unusual"}
CHECKS = {
    (AA, GOOD): [PASSED, PASSED],
    (AA, HELD): [PASSED, FAILED],
    (AA, RELEASED): [row | {"released": "seen"} for row in (PASSED, FAILED)],
    (BB, HELD): [PASSED],
}
"""A day is held for one network and not for the other."""
QUERY = "select distinct network, date from published_flows order by all"


@pytest.fixture
def warehouse(demo: Demo, tmp_path: Path) -> Warehouse:
    """A connection of both networks on each of four days."""
    made = Warehouse(tmp_path / "W")
    for network, country in ((AA, "AA"), (BB, "BB")):
        with made.staging() as staging:
            staging.write(NETWORKS, network, None, "test", networks_of(country))
            made.publish(Unit("network", network), staging.files, {})
        for day in (GOOD, HELD, RELEASED, UNCHECKED):
            checks = CHECKS.get((network, day), [])
            publish(made, network, day, {FLOWS: [flow(demo)], QUALITY: checks})
    made.update_views()
    return made


def days(*networks: str) -> list[tuple[str, date]]:
    return [
        (network, day)
        for network in networks
        for day in (GOOD, HELD, RELEASED, UNCHECKED)
        if (network, day) != (AA, HELD)
    ]


def test_queries_of_duckdb_see_all_days_but_the_held_one(warehouse: Warehouse):
    with duckdb.connect(warehouse.root / VIEWS, read_only=True) as file:
        assert file.sql(QUERY).fetchall() == days(AA, BB)
        assert file.sql("select count(*) from flows").fetchall() == [(8,)]
    assert warehouse.connect().sql(QUERY).fetchall() == days(AA, BB)
    with run_query(warehouse, QUERY, Limits.of(SUPERSET_SECONDS, MEMORY)) as answer:
        columns, found = answer.columns_and_rows()
        assert (columns, [*found]) == (["network", "date"], days(AA, BB))


@pytest.mark.parametrize(("country", "network"), [("AA", AA), ("BB", BB)])
def test_an_analyst_of_a_country_sees_its_days_only(warehouse, tmp_path, country, network):
    made = country_views_folder({country}, warehouse.root / VIEWS, tmp_path / "home")
    with duckdb.connect(made / VIEWS, read_only=True) as views:
        assert views.sql(QUERY).fetchall() == days(network)


@pytest.mark.integration
def test_spark_sees_the_same_days(warehouse: Warehouse):
    spark = spark_session()
    register(spark, warehouse)
    found = spark.sql(QUERY.replace("order by all", "order by 1, 2")).collect()
    assert [tuple(row) for row in found] == days(AA, BB)
    assert spark.table("published_flows").columns == spark.table("flows").columns


def test_every_table_with_days_has_such_a_view(demo):
    """All but the checks themselves; with the same columns."""
    with duckdb.connect(demo.warehouse.root / VIEWS, read_only=True) as file:
        found = file.sql("select view_name from duckdb_views() where not internal").fetchall()
        published = {name for (name,) in found if name.startswith(PUBLISHED)}
        assert published == {PUBLISHED + name for name in TABLES.keys() - {"networks", "quality"}}
        for name in published:
            table = name.removeprefix(PUBLISHED)
            assert file.table(name).columns == file.table(table).columns


def test_a_query_of_one_network_and_day_opens_its_file_only(warehouse: Warehouse):
    query = f"select * from published_flows where network = '{BB}' and date = '{GOOD}'"
    plan = warehouse.connect().execute(f"explain {query}").fetchall()[0][1]
    assert "1/8" in plan
