"""The tables as Iceberg tables, read by pyiceberg."""

import time
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from uuid import UUID

import duckdb
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import StaticTable
from pyiceberg.table import Table as IcebergTable

from schemas import NETWORKS
from spark_jobs.base.errors import UserError
from spark_jobs.commands.cli import main
from spark_jobs.figures.tables import TABLES
from spark_jobs.warehouse.catalog import File, FileChanges, UnitCatalog
from spark_jobs.warehouse.database import CATALOG, database_of
from spark_jobs.warehouse.iceberg import (
    MAX_PREVIOUS_METADATA,
    MERGE_FACTOR,
    TableUpdate,
    write_metadata,
)
from spark_jobs.warehouse.path_io import PathIO
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Content, Unit
from tests.helpers.small_warehouse import (
    Killed,
    age_all_files,
    countries,
    data_files,
    moved_warehouse,
    publish,
    rows,
)

NOTHING = timedelta(0)


def catalog_of(root: Path) -> Catalog:
    return load_catalog("giscope", type="sql", uri=f"sqlite:///{root / CATALOG}")


def iceberg(root: Path, name: str = "networks") -> IcebergTable:
    return catalog_of(root).load_table(f"giscope.{name}")


def countries_in_iceberg(table: IcebergTable, snapshot_id: int | None = None) -> list[str]:
    return sorted(table.scan(snapshot_id=snapshot_id).to_arrow()["country"].to_pylist())


def metadata_files(root: Path) -> set[Path]:
    return set((root / "networks/metadata").iterdir())


@pytest.mark.integration
@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_rows_that_duckdb_reads(demo, name):
    table = iceberg(demo.warehouse.root, name)
    by_iceberg = table.scan().to_arrow()
    assert by_iceberg.column_names == TABLES[name].arrow_with_partitions.names
    connection = demo.warehouse.connect(name)
    connection.register("by_iceberg", by_iceberg)
    connection.execute("set timezone = 'UTC'")
    (count,) = connection.execute(f"select count(*) from {name}").fetchone()
    assert count == len(by_iceberg)
    for these, those in ((name, "by_iceberg"), ("by_iceberg", name)):
        assert not connection.execute(f"from {these} except all from {those} limit 1").fetchall()


def test_columns_and_tables_have_their_comments(demo):
    table = iceberg(demo.warehouse.root, "flows")
    assert table.properties["comment"] == f"one row is {TABLES['flows'].row}"
    docs = {field.name: field.doc for field in table.schema().fields}
    assert docs == {
        c.name: c.comment for c in (*TABLES["flows"].partitions, *TABLES["flows"].columns)
    }


def test_a_day_is_planned_from_its_own_files(demo):
    scan = iceberg(demo.warehouse.root, "flows").scan(
        row_filter="network = 'aa-gprs' and date = '2004-03-02'"
    )
    planned = {Path(task.file.file_path) for task in scan.plan_files()}
    assert planned == {
        path.resolve()
        for path in demo.warehouse.files(TABLES["flows"], "aa-gprs", date(2004, 3, 2))
    }


def test_all_tables_change_together(tmp_path, monkeypatch):
    warehouse = Warehouse(tmp_path)
    publish(warehouse, "AA")
    warehouse.update_views()
    before = UnitCatalog(database_of(tmp_path)).metadata_locations()
    publish(warehouse, "BB")

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(UnitCatalog, "set_metadata", killed)
        with pytest.raises(Killed):
            warehouse.update_views()
    assert UnitCatalog(database_of(tmp_path)).metadata_locations() == before
    assert countries_in_iceberg(iceberg(tmp_path)) == ["AA"]
    left = metadata_files(tmp_path)
    age_all_files(tmp_path)
    warehouse.maintain()
    assert countries_in_iceberg(iceberg(tmp_path)) == ["BB"]
    assert not left <= metadata_files(tmp_path), "what the killed one wrote is removed"


def test_superseded_rows_can_be_read_as_long_as_they_are_kept(tmp_path):
    warehouse = Warehouse(tmp_path)
    publish(warehouse, "AA")
    warehouse.update_views()
    before = datetime.now(UTC)
    time.sleep(0.01)
    publish(warehouse, "BB", "CC")
    warehouse.update_views()
    table = iceberg(tmp_path)
    was = table.snapshot_as_of_timestamp(int(before.timestamp() * 1000))
    assert countries_in_iceberg(table, was.snapshot_id) == ["AA"]
    assert countries_in_iceberg(table) == countries(warehouse) == ["BB", "CC"]
    asked = "select country from networks"
    assert warehouse.connect(asked, before).execute(asked).fetchall() == [("AA",)]

    Warehouse(tmp_path, NOTHING).maintain()
    table = iceberg(tmp_path)
    assert len(table.snapshots()) == 1
    assert countries_in_iceberg(table) == ["BB", "CC"]
    with pytest.raises(UserError, match="is not kept"):
        warehouse.connect(asked, before)
    with duckdb.connect(tmp_path / "warehouse.duckdb", read_only=True) as views:
        assert len(views.sql(asked).fetchall()) == 2


def test_sql_of_an_earlier_time(tmp_path, capfd):
    warehouse = Warehouse(tmp_path)
    publish(warehouse, "AA")
    ask = ["sql", "--warehouse", str(tmp_path), "--format", "csv", "select country from networks"]
    main([*ask, "--at", "2004-03-02"])
    assert capfd.readouterr().out == "country\n"
    main([*ask, "--at", f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%d %H:%M}"])
    assert capfd.readouterr().out == "country\nAA\n"


def test_the_number_of_metadata_files_is_bounded(tmp_path):
    """However often a table changes, with new rows and with replaced ones."""
    warehouse = Warehouse(tmp_path, NOTHING)
    counts = []
    for n in range(36):
        with warehouse.staging() as staging:
            staging.write(NETWORKS, f"n{n // 2}", None, "x", rows("AA"))
            warehouse.publish(Unit("network", f"n{n // 2}"), staging.files, {})
        warehouse.update_views()
        counts.append(len(metadata_files(tmp_path)))
    assert max(counts) <= 2 * MERGE_FACTOR + MAX_PREVIOUS_METADATA
    assert len(countries_in_iceberg(iceberg(tmp_path))) == len(data_files(warehouse)) == 18
    assert len(iceberg(tmp_path).snapshots()) == 1


def test_manifests_of_a_size_are_merged_once(tmp_path):
    """A merged manifest stays until there are as many of its size."""
    warehouse, location = Warehouse(tmp_path), None
    merged = []
    for n in range(3 * MERGE_FACTOR):
        change = FileChanges([File(f"networks/network=n{n}/x.parquet", Content(1, ""), 1)])
        location = write_metadata(
            TableUpdate("networks", str(warehouse.root), location, change, 0)
        ).location
        manifests = StaticTable.from_metadata(location).current_snapshot().manifests(PathIO())
        assert len(manifests) <= 2 * MERGE_FACTOR
        assert sum(m.added_files_count + m.existing_files_count for m in manifests) == n + 1
        merged.append({m.manifest_path for m in manifests if m.existing_files_count})
    assert [len(some) for some in merged[MERGE_FACTOR - 1 :: MERGE_FACTOR]] == [1, 2, 3]
    assert merged[MERGE_FACTOR - 1] <= merged[-1]


def test_orphan_files_are_removed(tmp_path, capfd):
    warehouse = Warehouse(tmp_path)
    publish(warehouse, "AA")
    publish(warehouse, "BB")
    orphans = [
        tmp_path / "networks/network=aa-gprs/all-0123abcd.parquet",
        tmp_path / f"networks/metadata/{UUID(int=1)}-m0.avro",
    ]
    warehouse.update_views()
    for orphan in orphans:
        orphan.write_text("x")
    age_all_files(tmp_path)
    main(["maintain", "--warehouse", str(tmp_path), "--remove-orphans"])
    said = capfd.readouterr().out
    assert [line.split("│")[1:3] for line in said.splitlines() if "removed" in line]
    assert not any(orphan.exists() for orphan in orphans)
    assert len(data_files(warehouse)) == 2
    main(["maintain", "--warehouse", str(tmp_path), "--keep-days", "0"])
    assert data_files(warehouse) == set(warehouse.files(NETWORKS))
    assert countries(warehouse) == countries_in_iceberg(iceberg(tmp_path)) == ["BB"]


def test_a_moved_warehouse_is_read_at_its_new_place(tmp_path):
    assert countries_in_iceberg(iceberg(moved_warehouse(tmp_path).root)) == ["BB"]


def test_a_new_column_is_null_in_earlier_files(tmp_path, monkeypatch):
    def publish_as(table: object, country: str) -> FileChanges:
        monkeypatch.setitem(TABLES, "networks", table)
        path = f"networks/network={country}/x.parquet"
        (tmp_path / path).parent.mkdir(parents=True)
        pq.write_table(rows(country).select(table.arrow.names), tmp_path / path)
        return FileChanges([File(path, Content((tmp_path / path).stat().st_size, ""), 1)])

    earlier = replace(NETWORKS, columns=NETWORKS.columns[:-1])
    first = write_metadata(
        TableUpdate("networks", str(tmp_path), None, publish_as(earlier, "AA"), 0)
    )
    after = publish_as(NETWORKS, "BB")
    second = write_metadata(TableUpdate("networks", str(tmp_path), first.location, after, 0))
    found = StaticTable.from_metadata(second.location).scan().to_arrow()
    assert found.column_names == NETWORKS.arrow_with_partitions.names
    assert sorted(found["country"].to_pylist()) == ["AA", "BB"]
