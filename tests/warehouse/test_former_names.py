"""A warehouse of an earlier version, whose files have former names, reads as one of today."""

import shutil
import sqlite3
from datetime import date
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import contents
from pyiceberg.table import StaticTable
from test_warehouse import countries, publish

from schemas import RTO_VALUES
from schemas.former_names import FORMER_COLUMNS, FORMER_TABLES, renamed_columns, stored_names
from spark_jobs.figures.tables import TABLES
from spark_jobs.jobs import flows as job
from spark_jobs.view_sql import Description, create_views, restricted_views
from spark_jobs.warehouse.database import CATALOG
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.targets import stored_form
from spark_jobs.warehouse.units import content_of
from spark_jobs.warehouse.views import view_of

FOLDERS = {now: former for former, now in FORMER_TABLES.items()}


@pytest.fixture(scope="module")
def earlier(demo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's warehouse with former names of tables and columns in all its files."""
    root = tmp_path_factory.mktemp("earlier") / "W"
    shutil.copytree(demo.warehouse.root, root)
    with sqlite3.connect(root / CATALOG) as catalog:
        current = catalog.execute("select path from giscope_files where superseded_ns is null")
        for (path,) in current.fetchall():
            with_former_names(root, path, catalog)
        catalog.execute("delete from iceberg_tables")
    return root


def with_former_names(root: Path, path: str, catalog: sqlite3.Connection) -> None:
    """Write a file again with former names, and put it in the catalog in the file's place."""
    table, rest = path.split("/", 1)
    names = {now: former for former, now in FORMER_COLUMNS.get(table, {}).items()}
    if table not in FOLDERS and not names:
        return
    form = stored_form(TABLES[table], path)
    assert form is not None
    layout = form.layout
    former_path = f"{FOLDERS.get(table, table)}/{rest.replace(layout, '0' * len(layout))}"
    (root / former_path).parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetFile(root / path) as file:
        stored = file.schema_arrow
        former = pa.schema([f.with_name(names.get(f.name, f.name)) for f in stored])
        with pq.ParquetWriter(root / former_path, former) as writer:
            for k in range(file.num_row_groups):
                rows = file.read_row_group(k).rename_columns(former.names)
                writer.write_table(rows, row_group_size=len(rows))
            writer.add_key_value_metadata(stored.metadata or {})
    (root / path).unlink()
    content = content_of(root / former_path)
    catalog.execute(
        "update giscope_files set path = ?, size = ?, xxh3 = ? where path = ?",
        (former_path, content.size, content.xxh3, path),
    )


def test_every_table_reads_as_before(demo, earlier):
    assert {path.parts[-4] for path in Warehouse(earlier).files(RTO_VALUES)} == {"timers"}
    assert contents(earlier) == contents(demo.warehouse.root)


def test_a_country_has_its_rows_of_files_with_former_names(demo, earlier):
    views = [view_of(table, files) for table, files in Warehouse(earlier).files_by_table().items()]
    described = Description({"aa-gprs": "AA", "bb-gprs": "BB"}, views)
    connection, whole = duckdb.connect(), demo.warehouse.connect()
    create_views(connection, restricted_views(described, {"AA"}))
    for name in TABLES:
        asked = f"select hash(t) from {name} t where network = 'aa-gprs' order by all"
        assert connection.execute(asked).fetchall() == whole.execute(asked).fetchall(), name
        others = f"select count(*) from {name} where network <> 'aa-gprs'"
        assert connection.execute(others).fetchall() == [(0,)], name


def test_flows_are_made_of_packets_with_former_names(demo, earlier, networks, monkeypatch):
    monkeypatch.setattr(job, "FORMAT", job.FORMAT + 1)
    warehouse = Warehouse(earlier)
    days = [(network, date(2004, 3, 2)) for network in networks.values()]
    job.publish_flows(warehouse, days)
    assert {path.parts[-4] for path in warehouse.files(RTO_VALUES)} == {"rto_values"}
    assert contents(earlier) == contents(demo.warehouse.root)


def test_iceberg_tables_read_files_with_former_names(earlier):
    from pyiceberg.table import StaticTable

    warehouse = Warehouse(earlier)
    warehouse.update_views()
    locations = warehouse.metadata_locations()
    assert not FORMER_TABLES.keys() & locations
    for name, column in (("packets", "user_partition"), ("suppressed_groups", "groups")):
        table = StaticTable.from_metadata(locations[name])
        assert table.scan().to_arrow()[column].null_count == 0, name


@pytest.mark.parametrize("table", FORMER_COLUMNS)
def test_former_names_lead_to_columns_of_today(table):
    columns = TABLES[table].arrow.names
    former = FORMER_COLUMNS[table]
    assert set(former.values()) <= set(columns)
    assert not former.keys() & set(columns)
    assert renamed_columns(table, [*former, "other"]) == former
    assert stored_names(table, former.values()) == [*former.values(), *former]


def test_former_tables_are_tables_of_today():
    assert set(FORMER_TABLES.values()) <= TABLES.keys()
    assert not FORMER_TABLES.keys() & TABLES.keys()


def test_the_catalog_of_the_version_before_is_read(tmp_path):
    """It marked the files that Iceberg shows, and knew no time that the tables show."""
    before = Warehouse(tmp_path)
    publish(before, "AA")
    before.update_views()
    before._database.close()
    with sqlite3.connect(tmp_path / CATALOG) as catalog:
        catalog.execute("alter table giscope_files add column listed boolean default true not null")
        catalog.execute("delete from giscope_units where name = 'Iceberg tables'")
        catalog.execute("drop table giscope_fences")
        catalog.execute("drop index ix_giscope_units_generation")
        catalog.execute("pragma user_version = 12")
    warehouse = Warehouse(tmp_path)
    assert countries(warehouse) == ["AA"]
    publish(warehouse, "BB")
    warehouse.update_views()
    assert countries(warehouse) == ["BB"]
    assert warehouse.iceberg_mismatches() == {}
    location = warehouse.metadata_locations()["networks"]
    shown = StaticTable.from_metadata(location).scan().to_arrow()
    assert shown["country"].to_pylist() == ["BB"]
    with sqlite3.connect(tmp_path / CATALOG) as catalog:
        assert catalog.execute("pragma index_info(ix_giscope_units_generation)").fetchall()
