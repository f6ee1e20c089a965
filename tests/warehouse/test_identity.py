"""A warehouse and its catalog have one identity: no command uses another warehouse's catalog."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from conftest import NETWORKS_FILE

from schemas import NETWORKS
from spark_jobs.base.errors import UserError
from spark_jobs.commands.cli import main
from spark_jobs.warehouse.catalog_tables import FORMAT
from spark_jobs.warehouse.database import CATALOG
from spark_jobs.warehouse.identity import MARK, Mark
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit
from tests.helpers.small_captures import ingest_syns, packets_of
from tests.helpers.small_warehouse import age_all_files, countries, data_files, publish

FILES = "--networks", str(NETWORKS_FILE)
COMMANDS = {
    "run": (*FILES, "."),
    "ingest": (*FILES, "--network", "aa-gprs", "x.pcap"),
    "flows": (*FILES, "--network", "aa-gprs", "--date", "2004-03-02"),
    "check": FILES,
    "release": (*FILES, "--network", "aa-gprs", "--date", "2004-03-02", "--reason", "x"),
    "marts": (),
    "maintain": (),
    "forget": (*FILES, "--network", "aa-gprs", "--user", "x"),
    "purge": ("--before", "2030-01-01"),
    "report": ("--output", "report.html"),
    "sql": ("select 1",),
    "why": ("1",),
    "plot": ("1",),
}
LOSSES = {
    "removed": Path.unlink,
    "empty": lambda catalog: catalog.write_bytes(b""),
    "no database": lambda catalog: catalog.write_bytes(b"nonsense" * 1000),
}


@pytest.fixture
def full(tmp_path, network, in_this_process) -> Warehouse:
    warehouse = Warehouse(tmp_path / "w")
    ingest_syns(warehouse, network, tmp_path, a=2, b=3)
    warehouse.update_views()
    return warehouse


def refused(capfd, *args: str) -> str:
    """Run a command that is refused; return its line."""
    with pytest.raises(SystemExit) as stopped:
        main([*args])
    assert stopped.value.code == 2
    (line,) = capfd.readouterr().err.splitlines()
    return line


def all_files(root: Path) -> set[Path]:
    return {p for p in root.rglob("*") if p.is_file() and CATALOG not in p.name}


@pytest.mark.integration
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_command_refuses_a_warehouse_without_its_catalog(
    full, tmp_path, monkeypatch, capfd, command, loss
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "aa-gprs").mkdir()
    shutil.copy(tmp_path / "a.pcap", tmp_path / "aa-gprs")
    LOSSES[loss](full.root / CATALOG)
    age_all_files(full.root)
    before = all_files(full.root)
    line = refused(capfd, command, "--warehouse", str(full.root), *COMMANDS[command])
    assert str(full.root / CATALOG) in line
    assert all_files(full.root) == before
    if loss != "no database":
        assert "--rebuild-catalog" in line


def test_a_warehouse_without_a_mark_gets_one(full):
    identity = json.loads((full.root / MARK).read_text())["identity"]
    (full.root / MARK).unlink()
    publish(Warehouse(full.root), "AA")
    mark = json.loads((full.root / MARK).read_text())
    assert (mark["identity"], mark["catalog"]) == (identity, CATALOG)


def test_a_warehouse_without_mark_and_catalog_is_refused(full, capfd):
    (full.root / MARK).unlink()
    (full.root / CATALOG).unlink()
    line = refused(capfd, "maintain", "--warehouse", str(full.root))
    assert "does not know this warehouse" in line
    assert len(data_files(full)) == 4


def test_a_killed_first_job_stops_no_other(tmp_path):
    """Killed after it wrote the mark, before it made the catalog."""
    (tmp_path / MARK).write_text(json.dumps(Mark("1", CATALOG, "1.0.0", FORMAT)._asdict()))
    publish(Warehouse(tmp_path), "AA")
    assert countries(Warehouse(tmp_path)) == ["AA"]
    assert json.loads((tmp_path / MARK).read_text())["identity"] == "1"


def test_an_invalid_mark_is_refused(full, capfd):
    (full.root / MARK).write_text("[]")
    line = refused(capfd, "sql", "--warehouse", str(full.root), "select 1")
    assert f"{full.root / MARK}: is damaged" in line


def test_the_catalog_of_another_warehouse_is_refused(full, tmp_path):
    other = Warehouse(tmp_path / "other")
    publish(other, "BB")
    shutil.copy(other.root / CATALOG, full.root / CATALOG)
    with pytest.raises(UserError, match="belongs to another warehouse; restore"):
        Warehouse(full.root)


def test_a_catalog_lost_during_a_job_is_refused(full):
    """The job had opened the warehouse before."""
    full._database.close()
    (full.root / CATALOG).unlink()
    with pytest.raises(UserError, match="does not know this warehouse"):
        full.maintain()
    assert len(data_files(full)) == 4


def test_a_moved_warehouse_keeps_its_catalog(full, tmp_path):
    full.root.rename(tmp_path / "moved")
    assert packets_of(Warehouse(tmp_path / "moved")) == [2, 3]


def orphan(warehouse: Warehouse, name: str, age_s: float = 3 * 86400) -> Path:
    path = warehouse.root / "networks" / "network=zz" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"left")
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def many_files(folder: Path, network_files: int = 40) -> Warehouse:
    warehouse = Warehouse(folder)
    with warehouse.staging() as staging:
        for n in range(network_files):
            rows = NETWORKS.arrow.empty_table()
            staging.write(NETWORKS, "aa-gprs", None, str(n), rows)
        warehouse.publish(Unit("network", "aa-gprs"), staging.files, {})
    return warehouse


def test_old_orphan_files_named_by_giscope_are_removed(tmp_path):
    warehouse = many_files(tmp_path / "w")
    old = orphan(warehouse, "x-01234567-89abcdef.parquet")
    young = orphan(warehouse, "y-01234567-89abcdef.parquet", age_s=3600)
    foreign = [orphan(warehouse, name) for name in ("notes.txt", "x.parquet", "x-0.parquet.bak")]
    held = {held.label: held.files for held in warehouse.maintain()}
    assert not old.exists()
    assert young.exists()
    assert all(path.exists() for path in foreign)
    assert held["removed"] == 1
    assert held["orphans, kept for now"] == 1
    assert held["files of other names, kept"] == 3


def test_many_orphan_files_are_removed_only_with_the_option(tmp_path, capfd):
    warehouse = many_files(tmp_path / "w")
    names = [f"{n}-01234567-89abcdef.parquet" for n in range(5)]
    paths = [orphan(warehouse, name) for name in names]
    line = refused(capfd, "maintain", "--warehouse", str(warehouse.root))
    assert "--remove-orphans" in line
    assert all(path.exists() for path in paths)
    main(["maintain", "--warehouse", str(warehouse.root), "--remove-orphans"])
    assert not any(path.exists() for path in paths)
    assert len(warehouse.files(NETWORKS)) == 40
    assert warehouse.damaged(all_bytes=True) == {}


def test_a_restored_old_catalog_removes_nothing(full, network, tmp_path, capfd):
    full._database.close()
    shutil.copy(full.root / CATALOG, tmp_path / "backup")
    ingest_syns(Warehouse(full.root), network, tmp_path, c=4, d=5)
    shutil.copy(tmp_path / "backup", full.root / CATALOG)
    age_all_files(full.root)
    before = data_files(full)
    assert "old copy" in refused(capfd, "maintain", "--warehouse", str(full.root))
    assert data_files(full) == before
