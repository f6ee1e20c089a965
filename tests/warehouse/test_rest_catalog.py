"""An operator's REST catalog, in which giscope registers the tables: Iceberg's own server."""

import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest
import rest_server
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table.metadata import TableMetadata
from small_captures import ingest_syns
from test_iceberg_by_spark import Session
from test_warehouse import moved_warehouse, publish

from schemas import NETWORKS
from spark_jobs.cli import main
from spark_jobs.figures.tables import TABLES
from spark_jobs.warehouse import iceberg, rest_catalog
from spark_jobs.warehouse.catalog import UnitCatalog
from spark_jobs.warehouse.database import database_of
from spark_jobs.warehouse.store import Warehouse

ROUNDS = 8


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[str]:
    with rest_server.running(tmp_path_factory.mktemp("rest")) as uri:
        yield uri


@pytest.fixture
def catalog(server, monkeypatch) -> Iterator[RestCatalog]:
    """Return the catalog that GISCOPE_REST_CATALOG names, without tables."""
    monkeypatch.setenv("GISCOPE_REST_CATALOG", server)
    found = load_catalog("site", type="rest", uri=server)
    yield found
    for name in found.list_tables("giscope"):
        found.drop_table(name)


def metadata_of(root: Path, table: str) -> TableMetadata:
    """Return a table's metadata as giscope has them."""
    return iceberg.load_table(UnitCatalog(database_of(root)).metadata_locations()[table]).metadata


def countries(catalog: RestCatalog) -> list[str]:
    rows = catalog.load_table("giscope.networks").scan().to_arrow()
    return sorted(rows["country"].to_pylist())


def test_the_catalog_has_what_is_published(catalog, tmp_path, monkeypatch):
    warehouse = Warehouse(tmp_path)
    publish(warehouse, "AA", "BB")
    warehouse.update_views()
    assert countries(catalog) == ["AA", "BB"]
    publish(warehouse, "CC")
    assert countries(catalog) == ["AA", "BB"]
    warehouse.update_views()
    assert countries(catalog) == ["CC"]
    theirs = catalog.load_table("giscope.networks").metadata
    ours = metadata_of(tmp_path, "networks")
    assert theirs.snapshots == ours.snapshots
    assert rest_catalog.updates_between("networks", theirs, ours) == []
    monkeypatch.setattr(rest_catalog, "sync_tables", None)
    warehouse.update_views()  # nothing has changed: no request is sent


def test_every_table_has_the_rows_that_duckdb_reads(catalog, demo, tmp_path):
    shutil.copytree(demo.warehouse.root, tmp_path / "w")
    warehouse = Warehouse(tmp_path / "w")
    publish(warehouse, "AA")
    warehouse.update_views()
    duck = warehouse.connect()
    for name in TABLES:
        (rows,) = duck.execute(f"select count(*) from {name}").fetchone()
        assert len(catalog.load_table(f"giscope.{name}").scan().to_arrow()) == rows, name


@pytest.mark.parametrize("transactions", [True, False])
def test_all_tables_change_together_where_the_catalog_has_transactions(
    catalog, network, tmp_path, monkeypatch, transactions
):
    """The second table's change is refused: with transactions the first's is, too."""
    warehouse = Warehouse(tmp_path)
    publish(warehouse, "AA")
    warehouse.update_views()
    if not transactions:
        monkeypatch.setattr(rest_catalog, "HAS_TRANSACTIONS", "none")
    request = rest_catalog._request

    def refused(name, theirs, updates):
        made = request(name, theirs, updates)
        if name == "packets":
            made["requirements"][1]["snapshot-id"] = 1
        return made

    with monkeypatch.context() as patched:
        patched.setattr(rest_catalog, "_request", refused)
        publish(warehouse, "BB")
        ingest_syns(warehouse, network, tmp_path, a=1)
        warehouse.update_views()
        assert re.search(r"REST catalog at 127\.0\.0\.1:.*main.*1", str(warehouse.sync_error))
    assert countries(catalog) == (["AA"] if transactions else ["BB"])
    warehouse.update_views()
    assert countries(catalog) == ["BB"]
    assert warehouse.sync_error is None
    assert catalog.load_table("giscope.packets").scan().count() == 1


def test_a_reader_sees_old_or_new_rows(catalog, tmp_path):
    warehouse, ended = Warehouse(tmp_path), Event()
    publish(warehouse, "A0", "B0")
    warehouse.update_views()

    def read() -> list[list[str]]:
        seen = []
        while not ended.is_set():
            seen.append(countries(catalog))
        return seen

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read)
        try:
            for n in range(1, ROUNDS):
                publish(warehouse, f"A{n}", f"B{n}")
                warehouse.update_views()
        finally:
            ended.set()
        seen = reader.result()
    numbers = [int(a[1:]) for a, b in seen if a[0] + b == f"AB{a[1:]}"]
    assert len(numbers) == len(seen)
    assert numbers == sorted(numbers)
    assert len(set(numbers)) > 2


def test_maintain_keeps_the_catalogs_current_metadata_and_removes_old_snapshots(
    catalog, tmp_path, monkeypatch
):
    warehouse = Warehouse(tmp_path, grace_time=timedelta(0))
    for country in ("AA", "BB", "CC"):
        publish(warehouse, country)
        warehouse.update_views()
    main(["maintain", "--warehouse", str(tmp_path), "--keep-days", "0"])
    table = catalog.load_table("giscope.networks")
    assert [snapshot.snapshot_id for snapshot in table.snapshots()] == [
        metadata_of(tmp_path, "networks").current_snapshot_id
    ]
    assert countries(catalog) == ["CC"]
    monkeypatch.delenv("GISCOPE_REST_CATALOG")  # as on a host without this setting
    main(["maintain", "--warehouse", str(tmp_path), "--keep-days", "0"])
    assert countries(catalog) == ["CC"]
    monkeypatch.undo()
    monkeypatch.setenv("GISCOPE_REST_CATALOG", catalog.uri)
    publish(warehouse, "DD")
    warehouse.update_views()
    assert countries(catalog) == ["DD"]


def test_erased_snapshots_are_removed_from_the_catalog(catalog, tmp_path):
    warehouse = Warehouse(tmp_path)
    publish(warehouse, "AA")
    warehouse.update_views()
    publish(warehouse, "BB")
    warehouse.erase_history([NETWORKS])
    assert len(catalog.load_table("giscope.networks").snapshots()) == 1
    assert countries(catalog) == ["BB"]


def test_a_table_that_others_changed_is_left_alone(catalog, tmp_path, capsys):
    """giscope updates the table again once they drop it."""
    warehouse = Warehouse(tmp_path)
    publish(warehouse, "AA", "CC")
    warehouse.update_views()
    catalog.load_table("giscope.networks").delete("country = 'AA'")
    assert countries(catalog) == ["CC"]
    publish(warehouse, "BB")
    warehouse.update_views()
    assert "another program has changed it" in capsys.readouterr().err
    assert countries(catalog) == ["CC"]
    catalog.drop_table("giscope.networks")
    warehouse.update_views()
    assert countries(catalog) == ["BB"]
    assert warehouse.sync_error is None


def test_another_warehouses_tables_stay(catalog, tmp_path):
    first, second = Warehouse(tmp_path / "a"), Warehouse(tmp_path / "b")
    publish(first, "AA")
    first.update_views()
    publish(second, "BB")
    second.update_views()
    assert "belongs to another warehouse" in str(second.sync_error)
    assert countries(catalog) == ["AA"]


def test_a_moved_warehouse_is_registered_once_its_old_tables_are_dropped(catalog, tmp_path):
    moved = moved_warehouse(tmp_path)
    assert "metadata" in str(moved.sync_error)
    for name in catalog.list_tables("giscope"):
        catalog.drop_table(name)
    moved.update_views()
    assert countries(catalog) == ["BB"]


def test_a_new_column_is_added_in_the_catalog(catalog, tmp_path, monkeypatch):
    publish(Warehouse(tmp_path), "AA")
    fewer = replace(NETWORKS, columns=NETWORKS.columns[:-1])
    with monkeypatch.context() as earlier:
        earlier.setitem(iceberg.TABLES, "networks", fewer)
        Warehouse(tmp_path).update_views()
    assert len(catalog.load_table("giscope.networks").schema().columns) < len(
        NETWORKS.arrow_with_partitions
    )
    publish(Warehouse(tmp_path), "BB")
    Warehouse(tmp_path).update_views()
    rows = catalog.load_table("giscope.networks").scan().to_arrow()
    assert rows.column_names == NETWORKS.arrow_with_partitions.names
    assert rows["country"].to_pylist() == ["BB"]


@pytest.mark.parametrize(
    ("uri", "place", "reason"),
    [
        ("http://someone:secret@127.0.0.1:9/api", "127.0.0.1:9", "cannot be reached"),
        ("catalog.example", "catalog.example", "cannot be reached"),
        ("http://[bad", "http://[bad", "its answer is not a REST catalog's"),
    ],
)
def test_an_unreachable_catalog_fails_maintain_only(
    tmp_path, monkeypatch, capsys, uri, place, reason
):
    monkeypatch.setenv("GISCOPE_REST_CATALOG", uri)
    warehouse = Warehouse(tmp_path)
    publish(warehouse, "AA")
    warehouse.update_views()
    line = f"giscope: REST catalog at {place}: {reason}; the next job tries again\n"
    assert capsys.readouterr().err == line
    with pytest.raises(SystemExit) as ended:
        main(["maintain", "--warehouse", str(tmp_path)])
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert set(said.err.splitlines(keepends=True)) == {line}
    assert "published" in said.out
    connection = Warehouse(tmp_path).connect()
    assert connection.execute("select country from networks").fetchall() == [("AA",)]


def test_spark_reads_the_catalog(catalog, server, tmp_path):
    warehouse = Warehouse(tmp_path)
    publish(warehouse, "AA", "BB")
    warehouse.update_views()
    session = Session(tmp_path, server)
    query = "select country from giscope.giscope.networks order by 1"
    assert session.ask(query) == [["AA"], ["BB"]]
    publish(warehouse, "CC")
    warehouse.update_views()
    assert session.ask(query) == [["CC"]]
    session.close()
