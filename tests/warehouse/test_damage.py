"""Published files that somebody removed or overwrote are reported, and made again."""

import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
from conftest import NETWORKS_FILE, ask

from schemas import FLOWS, PACKETS, Table
from spark_jobs.commands.cli import main
from spark_jobs.figures.tables import TABLES
from spark_jobs.warehouse.store import Warehouse


@pytest.fixture
def warehouse(few_run, tmp_path) -> Warehouse:
    """Return a copy of a warehouse that a run has made, with updated views."""
    shutil.copytree(few_run.root, tmp_path / "w")
    Warehouse(tmp_path / "w").update_views()
    return Warehouse(tmp_path / "w")


def run(root: Path, captures: Path) -> None:
    main(["run", "--warehouse", str(root), "--networks", str(NETWORKS_FILE), str(captures)])


def checked(root: Path, capsys: pytest.CaptureFixture, status: int = 2) -> list[str]:
    """Run `giscope check`; return its lines on stderr."""
    capsys.readouterr()
    with pytest.raises(SystemExit) if status else nullcontext() as end:
        main(["check", "--warehouse", str(root), "--networks", str(NETWORKS_FILE)])
    assert not status or end.value.code == status
    return capsys.readouterr().err.splitlines()


def rows(warehouse: Warehouse, table: Table) -> list[tuple]:
    return ask(warehouse, f"from {table.name} order by all").fetchall()


def test_a_damaged_file_is_reported_and_made_again(warehouse, few_captures, capsys):
    (flows,) = warehouse.files(FLOWS, "aa-gprs")
    (packets,) = warehouse.files(PACKETS, "bb-gprs")
    (mart,) = warehouse.files(TABLES["table1_summary"], "aa-gprs")
    before = {table: rows(warehouse, table) for table in (FLOWS, PACKETS, TABLES["table2_loss"])}
    assert checked(warehouse.root, capsys, status=0) == []
    size = flows.stat().st_size
    flows.write_bytes(flows.read_bytes()[:-1])
    mart.unlink()
    assert sorted(checked(warehouse.root, capsys)) == [
        f"giscope: {flows}: has {size - 1:,} bytes, {size:,} were published "
        "(day 2004-03-02 of aa-gprs)",
        f"giscope: {mart}: is missing (marts 2004-03-02 of aa-gprs)",
    ]
    packets.unlink()
    run(warehouse.root, few_captures)
    assert checked(warehouse.root, capsys, status=0) == []
    for table, expected in before.items():
        assert rows(warehouse, table) == expected


def test_other_bytes_of_the_same_size_are_reported(warehouse, capsys):
    (flows,) = warehouse.files(FLOWS, "aa-gprs")
    content = bytearray(flows.read_bytes())
    content[len(content) // 2] ^= 1
    flows.write_bytes(content)
    (line,) = checked(warehouse.root, capsys)
    assert line.startswith(f"giscope: {flows}: has other bytes than were published; remove it")
    assert warehouse.damaged(all_bytes=True, network="bb-gprs") == {}


def test_packets_lost_with_their_capture_are_reported_and_the_rest_is_made(
    warehouse, few_captures, tmp_path, capsys
):
    (packets,) = warehouse.files(PACKETS, "aa-gprs")
    packets.unlink()
    (flows,) = warehouse.files(FLOWS, "bb-gprs")
    flows.unlink()
    shutil.copytree(few_captures / "bb-gprs", tmp_path / "others/bb-gprs")
    with pytest.raises(SystemExit) as end:
        run(warehouse.root, tmp_path / "others")
    assert end.value.code == 2
    missing = [line for line in capsys.readouterr().err.splitlines() if "missing" in line]
    assert missing == [f"giscope: {packets}: is missing (capture peak.pcap of aa-gprs)"]
    assert warehouse.files(FLOWS, "bb-gprs")[0].exists()
