"""A lost catalog is made again from Iceberg's metadata and the Parquet files."""

import shutil
from datetime import date
from pathlib import Path

import pytest
from conftest import NETWORKS_FILE, ask, contents

from schemas import FLOWS, INGEST_LOG, PACKETS
from spark_jobs.base.errors import UserError
from spark_jobs.commands.cli import main
from spark_jobs.ingest.job import ingest_capture
from spark_jobs.ingest.networks import publish_network
from spark_jobs.jobs.rebuild import rebuild
from spark_jobs.warehouse import compaction
from spark_jobs.warehouse.database import CATALOG
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.small_captures import ingest_syns, packets_of

FILES = "--networks", str(NETWORKS_FILE)


def run(root: Path, captures: Path) -> None:
    main(["run", "--warehouse", str(root), *FILES, str(captures)])


@pytest.fixture
def full(few_run, tmp_path) -> Path:
    """Return a moved warehouse, made by a run, with updated views."""
    shutil.copytree(few_run.root, tmp_path / "w")
    Warehouse(tmp_path / "w").update_views()
    return tmp_path / "w"


def lose(root: Path) -> None:
    for path in root.glob(f"{CATALOG}*"):
        path.unlink()


def test_rebuilt_catalog_has_every_table(full, few_captures, capsys):
    before = contents(full)
    lose(full)
    main(["maintain", "--warehouse", str(full), "--rebuild-catalog"])
    assert capsys.readouterr().err == ""
    assert contents(full) == before
    assert Warehouse(full).damaged(all_bytes=True) == {}
    assert Warehouse(full).iceberg_mismatches() == {}
    run(full, few_captures)
    assert contents(full) == before
    assert "unchanged" not in capsys.readouterr().out
    run(full, few_captures)
    assert capsys.readouterr().out.count("unchanged") == 2


def test_packets_of_deleted_captures_stay(full, tmp_path):
    """Commands make the days again from the packets."""
    before = contents(full)
    lose(full)
    rebuild(full)
    main(
        ["flows", "--warehouse", str(full), *FILES, "--network", "aa-gprs", "--date", "2004-03-02"]
    )
    main(["marts", "--warehouse", str(full)])
    assert contents(full) == before


def test_merged_files_belong_to_their_captures_after_a_rebuild(
    tmp_path, network, monkeypatch, in_this_process
):
    monkeypatch.setattr(compaction, "MIN_FILES", 2)
    warehouse = Warehouse(tmp_path / "w")
    ingest_syns(warehouse, network, tmp_path, a=1, b=2, c=3)
    before = [warehouse.content_hashes(table) for table in (PACKETS, INGEST_LOG)]
    warehouse.maintain()
    assert len(warehouse.files(PACKETS)) == 1
    warehouse._database.close()
    lose(warehouse.root)
    rebuild(warehouse.root)
    again = Warehouse(warehouse.root)
    assert packets_of(again) == [1, 2, 3]
    assert [again.content_hashes(table) for table in (PACKETS, INGEST_LOG)] == before
    ingest_syns(again, network, tmp_path, b=5)
    assert packets_of(again) == [1, 5, 3]


def user_of(root: Path) -> str:
    query = "select \"user\" from packets where network = 'aa-gprs' group by 1 order by count(*)"
    return ask(Warehouse(root), query).fetchone()[0]


def test_a_forgotten_user_stays_forgotten_after_a_rebuild(full, few_captures):
    user = user_of(full)
    main(["forget", "--warehouse", str(full), *FILES, "--network", "aa-gprs", "--user", user])
    lose(full)
    rebuild(full)
    run(full, few_captures)
    query = f"select count(*) from packets where \"user\" = '{user}' or server = '{user}'"
    assert ask(Warehouse(full), query).fetchall() == [(0,)]


def test_purged_days_stay_purged_after_a_rebuild(full, few_captures):
    main(["purge", "--warehouse", str(full), "--table", "packets", "--before", "2005-01-01"])
    flows = Warehouse(full).content_hashes(FLOWS)
    lose(full)
    rebuild(full)
    assert Warehouse(full).purged_before("aa-gprs", PACKETS) == date(2005, 1, 1)
    run(full, few_captures)
    assert Warehouse(full).files(PACKETS) == []
    assert Warehouse(full).content_hashes(FLOWS) == flows


def test_another_key_is_refused_after_a_rebuild(full, networks, monkeypatch):
    lose(full)
    rebuild(full)
    monkeypatch.setenv("GISCOPE_KEY", "77" * 32)
    with pytest.raises(UserError, match="pseudonyms of another key"):
        publish_network(Warehouse(full), networks["aa-gprs"])


def test_plot_is_refused_after_a_rebuild_until_flows_are_made(full):
    (flow_id,) = ask(Warehouse(full), "select min(flow_id) from flows").fetchone()
    lose(full)
    rebuild(full)
    with pytest.raises(SystemExit) as stopped:
        main(["plot", "--warehouse", str(full), str(flow_id)])
    assert stopped.value.code == 2


def test_a_catalog_that_is_not_empty_is_not_rebuilt(full, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["maintain", "--warehouse", str(full), "--rebuild-catalog"])
    assert stopped.value.code == 2
    assert "is not empty" in capsys.readouterr().err


def test_older_metadata_replace_damaged_ones(full):
    newest = max((full / "packets/metadata").glob("*.json"), key=lambda path: path.name)
    newest.with_name("99999-" + newest.name[6:]).write_text("{")
    lose(full)
    assert rebuild(full).missing == []


def test_a_rebuild_names_missing_files(full):
    (full / "packets" / "metadata").rename(full / "elsewhere")
    (lost,) = Warehouse(full).files(FLOWS, "bb-gprs")
    lost.unlink()
    lose(full)
    missing = rebuild(full).missing
    assert (
        f"{full / 'packets'}: has no readable Iceberg metadata: its files are left out" in missing
    )
    assert any(line.startswith(f"{lost}: cannot be read") for line in missing)
    assert any("0 of 20,000 rows are there: ingest it again" in line for line in missing)


def test_a_killed_rebuild_leaves_no_half_catalog(tmp_path, network, monkeypatch, in_this_process):
    warehouse = Warehouse(tmp_path / "w")
    ingest_syns(warehouse, network, tmp_path, a=1, b=2)
    warehouse.update_views()
    warehouse._database.close()
    lose(warehouse.root)

    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    for step in ("register", "publish"):
        with monkeypatch.context() as patch:
            patch.setattr(f"spark_jobs.warehouse.catalog._{step}", killed)
            with pytest.raises(Killed):
                rebuild(warehouse.root)
        with pytest.raises(UserError, match="does not know this warehouse"):
            Warehouse(warehouse.root)
    rebuild(warehouse.root)
    assert packets_of(Warehouse(warehouse.root)) == [1, 2]
    assert ingest_capture(Warehouse(warehouse.root), network, tmp_path / "a.pcap").error is None
