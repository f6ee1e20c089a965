"""`giscope maintain` merges captures' small files: the same rows in fewer files, whatever comes
after."""

import shutil
import time
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from conftest import NETWORKS_FILE, NOON, count
from pyiceberg.catalog import load_catalog

from schemas import INGEST_LOG, PACKETS
from spark_jobs.base.errors import UserError
from spark_jobs.commands.cli import main
from spark_jobs.ingest.job import ingest, ingest_capture
from spark_jobs.jobs import flows as flows_job
from spark_jobs.settings.networks import Network
from spark_jobs.tables.registry import ROWS
from spark_jobs.warehouse import compaction
from spark_jobs.warehouse.database import CATALOG
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit
from tests.helpers.small_captures import ingest_syns
from tests.helpers.small_warehouse import Killed, data_files, kill_at_step
from tests.helpers.stale_days import stale_days

DAY = date(2004, 3, 2)
PIECES = 5
HEADER = 24
MIDNIGHT = NOON + 12 * 3600

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture(scope="module")
def captures(few_captures, tmp_path_factory) -> list[Path]:
    """Write rotated captures of some minutes of a network; their names are not in order of time."""
    raw = few_captures.joinpath("aa-gprs/peak.pcap").read_bytes()
    starts, at = [], HEADER
    while at < len(raw):
        starts.append(at)
        at += 16 + int.from_bytes(raw[at + 8 : at + 12], "little")
    cuts = [*starts[:: -(-len(starts) // PIECES)], len(raw)]
    folder = tmp_path_factory.mktemp("rotated") / "aa-gprs"
    folder.mkdir()
    paths = [folder / f"{9 - n}.pcap" for n in range(PIECES)]
    for path, low, high in zip(paths, cuts[:-1], cuts[1:], strict=True):
        path.write_bytes(raw[:HEADER] + raw[low:high])
    return paths


@pytest.fixture(scope="module")
def ingested(captures, networks, tmp_path_factory) -> Path:
    """Make a warehouse with their packets, a file each."""
    warehouse = Warehouse(tmp_path_factory.mktemp("ingested") / "w")
    for path in captures:
        assert ingest_capture(warehouse, networks["aa-gprs"], path).error is None
    warehouse.update_views()
    return warehouse.root


@pytest.fixture
def warehouse(ingested, tmp_path, monkeypatch) -> Warehouse:
    """Return a copy of it; few files are enough to be merged."""
    monkeypatch.setattr(compaction, "MIN_FILES", 3)
    shutil.copytree(ingested, tmp_path / "w")
    return Warehouse(tmp_path / "w", timedelta(1))


def rows(warehouse: Warehouse, at: datetime | None = None) -> list[tuple]:
    """Return, for each capture, its packets and those that ingest_log counts, by SQL."""
    query = """select capture, count(*), sum(ip_len), any_value(log.packets) from packets
        full join ingest_log as log using (capture) group by capture order by capture"""
    return warehouse.connect(query, at).execute(query).fetchall()


def hashes(warehouse: Warehouse) -> dict[str, list[str]]:
    return {t.name: warehouse.content_hashes(t) for t in (PACKETS, INGEST_LOG, *ROWS)}


def test_days_made_from_merged_files_have_the_same_bytes(warehouse, network):
    flows_job.publish_flows(warehouse, [(network, DAY)])
    expected, seen = hashes(warehouse), rows(warehouse)
    assert warehouse.compact() == (2 * PIECES, 2)
    assert [len(warehouse.files(table)) for table in (PACKETS, INGEST_LOG)] == [1, 1]
    assert rows(warehouse) == seen
    assert stale_days(warehouse, [network]) == []
    flows_job.publish_flows(warehouse, [(network, DAY)])
    assert hashes(warehouse) == expected
    assert warehouse.damaged(all_bytes=True) == {}
    assert warehouse.compact() == (0, 0), "nothing is merged twice"


def test_merged_captures_across_midnight_make_the_same_days(network, tmp_path, monkeypatch):
    warehouse = Warehouse(tmp_path / "w")
    monkeypatch.setattr(compaction, "MIN_FILES", 3)
    ingest_syns(warehouse, network, tmp_path, MIDNIGHT - 5, a=9, c=10, b=11)
    days = [(network, DAY), (network, DAY + timedelta(1))]
    flows_job.publish_flows(warehouse, days)
    expected = hashes(warehouse)
    assert warehouse.compact() == (9, 3)
    flows_job.publish_flows(warehouse, days)
    assert hashes(warehouse) == expected


def test_merged_files_have_at_most_the_largest_number_of_row_groups(warehouse, monkeypatch):
    seen, (path, *_) = rows(warehouse), warehouse.files(PACKETS)
    row_groups = compaction.read_metadata(path).num_row_groups
    monkeypatch.setattr(compaction, "MAX_ROW_GROUPS", 2 * row_groups)
    assert warehouse.compact() == (4 + PIECES, 2 + 1)
    assert len(warehouse.files(PACKETS)) == 3
    assert rows(warehouse) == seen


def test_unchanged_captures_are_known_in_merged_files(warehouse, network, captures):
    warehouse.compact()
    assert all(result.unchanged for result in ingest(warehouse, [(network, p) for p in captures]))


def test_a_capture_that_is_read_again_has_the_bytes_it_had(warehouse, network, captures):
    before = hashes(warehouse)
    warehouse.compact()
    captures[0].touch()
    (result,) = ingest(warehouse, [(network, captures[0])])
    assert not result.unchanged
    assert warehouse.content_hashes(PACKETS) == before["packets"]
    assert len(set(warehouse.content_hashes(INGEST_LOG)) & set(before["ingest_log"])) == PIECES - 1
    assert len(warehouse.files(PACKETS)) == PIECES


def replaced(warehouse: Warehouse, network: Network, folder: Path, captures: list[Path]) -> None:
    """Replace a capture by a shorter one of its name."""
    content = captures[1].read_bytes()
    shorter = folder / captures[1].name
    shorter.write_bytes(content[: len(content) // 2])
    assert ingest_capture(warehouse, network, shorter).error is None


def test_a_replaced_capture_counts_once(warehouse, network, tmp_path, captures):
    never_merged = Warehouse(tmp_path / "never")
    shutil.copytree(warehouse.root, never_merged.root)
    warehouse.compact()
    before = rows(warehouse)
    for store in (warehouse, never_merged):
        replaced(store, network, tmp_path, captures)
    assert rows(warehouse) == rows(never_merged) != before
    assert warehouse.content_hashes(PACKETS) == never_merged.content_hashes(PACKETS)
    assert warehouse.compact() == (2 * PIECES, 2)
    assert rows(warehouse) == rows(never_merged)


def test_earlier_versions_are_readable_until_they_are_removed(
    warehouse, network, tmp_path, captures
):
    first, singles = rows(warehouse), data_files(warehouse)
    times = [datetime.now(UTC)]
    for change in (warehouse.compact, lambda: replaced(warehouse, network, tmp_path, captures)):
        time.sleep(0.01)
        change()
        times.append(datetime.now(UTC))
    assert rows(warehouse) == rows(warehouse, times[2]) != first
    assert rows(warehouse, times[0]) == rows(warehouse, times[1]) == first
    assert singles <= data_files(warehouse)
    Warehouse(warehouse.root, timedelta(0)).maintain()
    assert data_files(warehouse) == {*warehouse.files(PACKETS), *warehouse.files(INGEST_LOG)}
    assert len(data_files(warehouse)) == 2
    with pytest.raises(UserError, match="is not kept"):
        warehouse.connect(as_of=times[0])


def test_iceberg_has_each_row_once(warehouse, network, tmp_path, captures):
    catalog = load_catalog("giscope", type="sql", uri=f"sqlite:///{warehouse.root / CATALOG}")

    def shown() -> tuple[int, int]:
        scan = catalog.load_table("giscope.packets").scan()
        return len(list(scan.plan_files())), len(scan.to_arrow())

    packets = count(warehouse)
    assert shown() == (PIECES, packets)
    warehouse.maintain()
    assert shown() == (1, packets)
    replaced(warehouse, network, tmp_path, captures)
    warehouse.update_views()
    assert shown() == (PIECES, count(warehouse))


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"PAR1")])
def test_a_lost_merged_file_is_reported_and_its_captures_are_read_again(
    warehouse, captures, capsys, damage
):
    seen = rows(warehouse)
    warehouse.compact()
    (merged,) = warehouse.files(PACKETS)
    damage(merged)
    (problem,) = warehouse.damaged(all_bytes=True).values()
    assert str(merged) in problem
    assert problem.endswith("(capture 5.pcap and 4 more of aa-gprs)")
    files = ["--warehouse", str(warehouse.root), "--networks", str(NETWORKS_FILE)]
    with pytest.raises(SystemExit):
        main(["check", *files])
    assert problem in capsys.readouterr().err
    main(["run", *files, str(captures[0].parents[1])])
    assert warehouse.damaged(all_bytes=True) == {}
    assert rows(warehouse) == seen


def test_captures_lost_with_a_merged_file_are_reported_singly_once_one_is_back(
    warehouse, network, captures
):
    warehouse.compact()
    for path in warehouse.files(PACKETS):
        path.unlink()
    assert ingest_capture(warehouse, network, captures[0]).error is None
    problems = list(warehouse.damaged().values())
    assert len(problems) == PIECES - 1
    assert all("is missing (capture" in line for line in problems)
    assert warehouse.is_intact(warehouse.published(Unit("capture", "aa-gprs", captures[0].name)))


def test_a_damaged_file_is_not_merged(warehouse):
    damaged = warehouse.files(PACKETS)[0]
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    assert warehouse.compact() == (2 * PIECES - 1, 2)
    assert damaged in warehouse.files(PACKETS)
    assert len(warehouse.damaged(all_bytes=True)) == 1


def test_files_replaced_during_a_merge_are_not_merged(
    warehouse, network, tmp_path, captures, monkeypatch
):
    def late(*arguments: object, written=compaction.merge) -> Iterator[tuple]:
        for merged in written(*arguments):
            replaced(warehouse, network, tmp_path, captures)
            yield merged

    monkeypatch.setattr("spark_jobs.warehouse.store.merge", late)
    before = rows(warehouse)
    assert warehouse.compact() == (0, 0)
    assert rows(warehouse) != before
    assert len(rows(warehouse)) == PIECES
    assert len(warehouse.files(PACKETS)) == PIECES


STEPS = 21
"""Steps of merging two tables' files of three captures, then replacing one: a merged file is begun,
moved and takes the place of others; two are split, each into three; the capture's own two files are
published. The last one is not reached."""
CALLS = (["replace"], ["register", "publish", "merge", "split"])
"""The steps' methods, of Path and of UnitCatalog."""


@pytest.mark.parametrize("step", range(STEPS))
def test_a_merge_killed_at_any_step_leaves_the_old_or_the_new_files(
    network, tmp_path, monkeypatch, step
):
    warehouse = Warehouse(tmp_path / "w", timedelta(0))
    monkeypatch.setattr(compaction, "MIN_FILES", 3)
    ingest_syns(warehouse, network, tmp_path, a=1, b=2, c=3)

    def seen() -> list[int]:
        found = rows(warehouse)
        assert [packets for _, packets, *_ in found] == [logged for *_, logged in found]
        return [packets for _, packets, *_ in found]

    with monkeypatch.context() as patch:
        taken = kill_at_step(patch, step, *CALLS)
        with pytest.raises(Killed) if step < STEPS - 1 else nullcontext():
            warehouse.compact()
            ingest_syns(warehouse, network, tmp_path, b=5)
    assert seen() == [1, 5 if "publish" in taken else 2, 3]
    ingest_syns(warehouse, network, tmp_path, b=4)
    warehouse.maintain()
    assert seen() == [1, 4, 3]
    assert len(data_files(warehouse)) == 2
    assert warehouse.damaged(all_bytes=True) == {}


def test_maintain_prints_what_it_merged(warehouse, capsys):
    main(["maintain", "--warehouse", str(warehouse.root)])
    printed = dict(
        map(str.strip, line.split("│")[1:3])
        for line in capsys.readouterr().out.splitlines()
        if "│" in line
    )
    assert (printed["small files merged"], printed["merged files written"]) == (
        str(2 * PIECES),
        "2",
    )
