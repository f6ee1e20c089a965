"""What giscope says of the studies' recordings is what the lab knows of them."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from spark_jobs.ingest.job import ingest
from spark_jobs.jobs.flows import publish_flows
from spark_jobs.settings.networks import load_networks
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.stale_days import stale_days
from tests.programs.studies import buffers, options, preemption, umts
from tests.programs.studies.__main__ import HEAD, SECTIONS
from tests.programs.studies.warehouse import CAPTURES, connect, groups, rows

PAGE = Path(__file__).parents[1] / "docs/studies.md"


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """The recordings' tables and truth."""
    warehouse = Warehouse(tmp_path_factory.mktemp("studies"))
    networks = load_networks(Path(__file__).parent / "programs/studies/networks.toml")
    ingest(
        warehouse, [(networks[path.parent.name], path) for path in CAPTURES.glob("*/*.pcap.zst")]
    )
    publish_flows(warehouse, stale_days(warehouse, networks.values()))
    with connect(warehouse.root) as found:
        yield found


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__module__)
def test_page_is_what_the_command_prints(db, section):
    text = PAGE.read_text()
    assert text.startswith(HEAD)
    assert section(db) in text


@pytest.mark.parametrize("cell", ["3 s", "6 s", "15 s"])
def test_preempted_transfer(db, cell):
    ours, true = rows(db, preemption.OURS)[cell], rows(db, preemption.TRUE)[cell]
    assert ours["goodput"] == pytest.approx(true["goodput"], rel=0.01)
    assert ours["retransmitted"] == pytest.approx(true["retransmitted"], abs=0.001)
    assert ours["found"] >= 0.9 * true["preemptions"]
    assert (ours["by_mobile"] > 0) == (true["by_mobile"] > 0)
    assert (ours["by_server"] > 0) == (true["by_server"] > 0)


def test_buffer_limit_is_found_if_it_is_reached(db):
    ours, true = rows(db, buffers.OURS), rows(db, buffers.TRUE)
    for cell, group in groups(buffers.NETWORK).items():
        mine = ours[cell]
        assert mine["goodput"] == pytest.approx(true[cell]["goodput"], rel=0.01)
        assert mine["rtt_max"] == pytest.approx(true[cell]["rtt_max"], rel=0.1)
        if group.access.lifetime == 5:
            packet = 8 * 1500 / group.access.rate
            assert mine["queue_s"] - packet == pytest.approx(5, rel=0.1)
        else:
            assert mine["queue_s"] is None or mine["queue_s"] != mine["queue_s"]


@pytest.mark.parametrize("network", options.NETWORKS)
def test_retransmissions_of_each_pair_of_options(db, network):
    transfers = db.sql(options.TRANSFERS).df().query("network == @network")
    for _, pair in transfers.groupby(["sack", "timestamps"]):
        assert len(pair) >= 15
        assert pair.retransmissions.sum() == pytest.approx(
            pair.true_retransmissions.sum(), rel=0.02
        )
        # Without SACK spurious retransmissions bring duplicate ACKs that look like losses.
        assert pair.rto_expiries.sum() == pytest.approx(pair.true_rto_expiries.sum(), rel=0.2)
        assert pair.goodput.mean() == pytest.approx(pair.true_goodput.mean(), rel=0.01)
        assert pair.lost.mean() == pytest.approx(0.023, abs=0.004)


def test_umts_loses_nothing_when_still(db):
    cells = rows(db, umts.IPERF)
    assert len(cells) == 36
    for cell in cells.values():
        assert cell["goodput"] == pytest.approx(cell["true_goodput"], rel=0.04)
        assert cell["lost"] == cell["rto_expiries"] == 0


def test_albums_are_pages(db):
    for row in db.sql(umts.ALBUMS).df().to_dict("records"):
        assert row["pages"] == row["loads"]
        assert row["seconds"] == pytest.approx(row["true_seconds"], rel=0.02)
        assert str(row["parallel"]) in row["cell"]
