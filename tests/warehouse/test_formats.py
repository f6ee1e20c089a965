"""Another format: packets are read again from their captures; where these are gone, the day stays
as it is and is named. Only a catalog of another format refuses a warehouse."""

import json

import pytest
from conftest import DAY, NETWORKS_FILE, contents

from schemas import FLOWS
from spark_jobs.base.sources import giscope_version
from spark_jobs.ingest import plan
from spark_jobs.jobs import flows as flows_job
from spark_jobs.warehouse.catalog_tables import FORMAT
from spark_jobs.warehouse.facts import CaptureFacts
from spark_jobs.warehouse.identity import MARK
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.command import giscope
from tests.helpers.small_captures import ingest_syns
from tests.helpers.stale_days import stale_days

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture
def captures(tmp_path):
    """Return the folder of the network's captures, as `giscope run` finds them."""
    folder = tmp_path / "captures" / "aa-gprs"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def made(warehouse, network, captures) -> Warehouse:
    """Make a warehouse of two captures, with flows."""
    ingest_syns(warehouse, network, captures, a=2, b=3)
    assert flows_job.bring_up_to_date(warehouse, [network]) == {("aa-gprs", DAY): 1}
    return warehouse


def run(warehouse, captures):
    where = "--warehouse", warehouse.root, "--networks", NETWORKS_FILE
    return giscope("run", *where, captures.parent)


def test_packets_of_another_format_are_read_again(made, network, captures, monkeypatch):
    run(made, captures)
    monkeypatch.setattr("spark_jobs.ingest.plan.FORMAT", 99)
    monkeypatch.setattr("spark_jobs.ingest.read.FORMAT", 99)
    assert flows_job.captures_of_another_format(made, network.name).keys() == {"a.pcap", "b.pcap"}
    before = contents(made.root)
    assert run(made, captures).stderr == ""
    assert flows_job.captures_of_another_format(made, network.name) == {}
    assert contents(made.root) == before


def test_the_day_stays_as_it_is_once_its_captures_are_gone(
    made, network, captures, monkeypatch, tmp_path
):
    run(made, captures)
    monkeypatch.setattr("spark_jobs.ingest.plan.FORMAT", 99)
    monkeypatch.setattr("spark_jobs.ingest.read.FORMAT", 99)
    monkeypatch.setattr(flows_job, "FORMAT", 99)
    (captures / "b.pcap").rename(tmp_path / "b.pcap")
    before = made.content_hashes(FLOWS, network.name, DAY)
    assert run(made, captures).stderr == (
        f"giscope: aa-gprs: the flows of {DAY} to {DAY} stay as they are: captures were read into "
        f"another format (1, the first is b.pcap): put them back and run again\n"
    )
    assert made.content_hashes(FLOWS, network.name, DAY) == before
    (tmp_path / "b.pcap").rename(captures / "b.pcap")
    assert run(made, captures).stderr == ""
    assert stale_days(made, [network]) == []


def test_days_of_an_unknown_format_are_made_again():
    """A rebuilt catalog knows the packets, not their format."""
    assert not plan.has_another_format(CaptureFacts(packets=1))
    assert plan.has_another_format(CaptureFacts(packets=1, format=99))


def test_the_mark_names_the_version(made):
    mark = json.loads((made.root / MARK).read_text())
    assert (mark["version"], mark["format"]) == (giscope_version(), FORMAT)
    assert giscope("--version").stdout == f"giscope {giscope_version()}\n"


@pytest.mark.parametrize("of_another", [{"version": "2.0.0", "format": FORMAT + 1}, {}])
def test_a_catalog_of_another_format_is_refused(made, captures, of_another):
    mark = json.loads((made.root / MARK).read_text())
    kept = {name: mark[name] for name in ("identity", "catalog")} | of_another
    (made.root / MARK).write_text(json.dumps(kept))
    version = of_another.get("version", "0.1")
    for done in (
        run(made, captures),
        giscope("sql", "--warehouse", made.root, "select 1"),
        giscope("maintain", "--warehouse", made.root, "--rebuild-catalog"),
    ):
        assert (done.returncode, done.stderr) == (
            2,
            f"giscope: {made.root}: made by giscope {version}, with a catalog of another format: "
            "keep the captures, remove this warehouse, and run again\n",
        )
