"""The catalog in PostgreSQL, for several hosts that write."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from conftest import NETWORKS_FILE, ROOT, contents
from pyiceberg.catalog import load_catalog

from schemas import NETWORKS, PACKETS
from spark_jobs.base.errors import UserError
from spark_jobs.commands.cli import main
from spark_jobs.warehouse import compaction
from spark_jobs.warehouse.database import CATALOG
from spark_jobs.warehouse.identity import MARK
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.small_captures import ingest_syns, packets_of
from tests.helpers.small_warehouse import assert_one_at_a_time, countries, data_files, publish


def test_units_are_published_and_shown(uri, tmp_path):
    warehouse = Warehouse(tmp_path, timedelta(0))
    assert warehouse.published_units("network") == []
    publish(warehouse, "AA", "BB")
    reader = Warehouse(tmp_path)
    assert countries(reader) == ["AA", "BB"]
    publish(warehouse, "CC")
    warehouse.update_views()
    assert countries(reader) == ["CC"]
    assert data_files(warehouse) == set(reader.files(NETWORKS))
    assert not (tmp_path / CATALOG).exists()
    catalog = load_catalog(
        "giscope", type="sql", uri=uri.replace("postgresql", "postgresql+psycopg", 1)
    )
    rows = catalog.load_table("giscope.networks").scan().to_arrow()
    assert rows["country"].to_pylist() == ["CC"]


def test_small_files_are_merged_and_split(uri, network, tmp_path, monkeypatch):
    monkeypatch.setattr(compaction, "MIN_FILES", 2)
    warehouse = Warehouse(tmp_path / "w")

    ingest_syns(warehouse, network, tmp_path, a=1, b=2)
    assert warehouse.compact() == (4, 2)
    assert len(warehouse.files(PACKETS)) == 1
    assert packets_of(warehouse) == packets_of(Warehouse(tmp_path / "w")) == [1, 2]
    ingest_syns(warehouse, network, tmp_path, b=3)
    assert packets_of(warehouse) == [1, 3]
    assert len(warehouse.files(PACKETS)) == 2


def test_a_lock_has_one_holder_at_a_time(uri, tmp_path):
    assert_one_at_a_time(Warehouse(tmp_path), Warehouse(tmp_path))


def test_a_database_is_the_catalog_of_one_warehouse_only(uri, tmp_path):
    """Also while a warehouse is new, and for warehouses older than marks."""
    one = Warehouse(tmp_path / "one")
    new = Warehouse(tmp_path / "two")
    publish(one, "AA")
    with pytest.raises(UserError, match="belongs to another warehouse already"):
        publish(new, "BB")
    with pytest.raises(UserError, match="belongs to another warehouse already"):
        Warehouse(tmp_path / "two")
    assert countries(Warehouse(tmp_path / "one")) == ["AA"]
    (tmp_path / "one" / MARK).unlink()
    with one._catalog._database.transaction() as session:
        session.exec_driver_sql("delete from giscope_catalog")
    with pytest.raises(UserError, match="is in use for another warehouse"):
        Warehouse(tmp_path / "two")
    publish(Warehouse(tmp_path / "one"), "CC")
    assert countries(Warehouse(tmp_path / "one")) == ["CC"]


def test_a_command_without_the_variable_is_refused(uri, tmp_path, monkeypatch, capsys):
    publish(Warehouse(tmp_path), "AA")
    monkeypatch.delenv("GISCOPE_CATALOG")
    with pytest.raises(SystemExit):
        main(["maintain", "--warehouse", str(tmp_path)])
    stderr = capsys.readouterr().err
    assert "set GISCOPE_CATALOG to the database localhost/" in stderr
    assert len(data_files(Warehouse(tmp_path, catalog=uri))) == 1


def test_a_catalog_other_than_the_warehouses_file_is_refused(uri, tmp_path, monkeypatch):
    monkeypatch.delenv("GISCOPE_CATALOG")
    publish(Warehouse(tmp_path), "AA")
    with pytest.raises(UserError, match="unset GISCOPE_CATALOG"):
        Warehouse(tmp_path, catalog=uri)


def test_a_run_makes_the_same_tables_as_with_a_catalog_file(uri, few_captures, few_run, tmp_path):
    root = tmp_path / "server"
    main(["run", "--warehouse", str(root), "--networks", str(NETWORKS_FILE), str(few_captures)])
    assert contents(root) == contents(few_run.root, catalog="")


def test_an_unreachable_catalog_is_reported_in_a_line(tmp_path):
    giscope = Path(sys.executable).with_name("giscope")
    for uri, message in (
        ("postgresql://me:secret@127.0.0.1:1/lake", "catalog at 127.0.0.1/lake: connection failed"),
        ("mysql://db/lake", "GISCOPE_CATALOG: must be postgresql://USER@HOST/DATABASE"),
    ):
        done = subprocess.run(
            [giscope, "sql", "--warehouse", str(tmp_path), "select count(*) from flows"],
            capture_output=True, text=True, check=False, cwd=ROOT, env={"GISCOPE_CATALOG": uri},
        )  # fmt: skip
        assert done.returncode == 2
        assert done.stderr.startswith(f"giscope: {message}")
        assert len(done.stderr.splitlines()) == 1
        assert "secret" not in done.stderr


def test_another_kind_of_catalog_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("GISCOPE_CATALOG", "oracle://db/lake")
    with pytest.raises(UserError, match="must be postgresql"):
        Warehouse(tmp_path)
