"""`make bench-scale` measures connections of the shipped captures, each with its own shape, none
with another's packets."""

from datetime import date
from ipaddress import ip_address
from pathlib import Path

import numpy as np
import pytest
from conftest import CAPTURES, DAY, NOON, ask

from spark_jobs.ingest.job import ingest_capture
from spark_jobs.jobs.flows import publish_flows
from spark_jobs.settings.networks import Network, Subscribers
from spark_jobs.warehouse.store import Warehouse
from tests.programs.bench.tile import records, tile
from tests.programs.bench.traffic import POOL, Source, copies_for, read_source, sessions, write

pytestmark = pytest.mark.usefixtures("in_this_process")

HOURS_US = NOON * 1_000_000, (NOON + 2 * 3600) * 1_000_000
SHAPE = """
    select
        setup_class, sack, timestamps, mss_class, max_window, split,
        packets_up, packets_down, ip_bytes_up, ip_bytes_down, payload_bytes_down,
        retransmissions, rto_expiries, lost_access, lost_internet, round(setup_delay, 6),
        epoch_us(end_ts) - epoch_us(start_ts)
    from flows order by all
"""


@pytest.fixture(scope="module")
def source(few_captures: Path) -> Source:
    return read_source([few_captures / "aa-gprs/peak.pcap"])


def shapes(root: Path, network: Network, *captures: Path, day: date = DAY) -> list[tuple]:
    """Return giscope's facts of each connection, without its user and its times."""
    warehouse = Warehouse(root)
    for capture in captures:
        assert ingest_capture(warehouse, network, capture).error is None
    publish_flows(warehouse, [(network, day)])
    return ask(warehouse, SHAPE).fetchall()


def test_connections_of_the_copies_are_those_of_the_source(few_captures, source, network, tmp_path):
    """Each occurs as many times as asked, in any capture of the day."""
    pool = network.model_copy(update={"subscribers": (Subscribers(prefix=POOL),)})
    copies = []
    for number in (6, 7):
        copies.append(tmp_path / f"{number}.pcap")
        write(source, *sessions(source, (2, 0), HOURS_US, number), copies[-1])
    one = shapes(tmp_path / "one", network, few_captures / "aa-gprs/peak.pcap")
    assert len(one) > 100
    assert shapes(tmp_path / "four", pool, *copies) == sorted(one * 4, key=one.index)


def test_subscribers_have_addresses_of_their_own_in_the_pool(source):
    first, second = (sessions(source, (2.5, 10), HOURS_US, n)[0]["subscriber"] for n in (0, 1))
    both = np.concatenate([first, second])
    assert len(np.unique(both)) == len(both) > 2 * 2 * len(source.users)
    assert all(ip_address(int(address)) in POOL for address in (both.min(), both.max()))


def test_packets_and_packets_per_connection_are_as_many_as_asked():
    """Counted over a day: a fraction of a connection's number is spread over its captures."""
    source = read_source([CAPTURES / "bb-gprs/peak.pcap.zst"])
    whole, light = copies_for(source, 400_000, 32)
    packets = sum(sessions(source, (whole, light), HOURS_US, n)[0]["count"].sum() for n in range(8))
    connections = 8 * (whole * source.connections + light * source.light_connections)
    assert packets == pytest.approx(8 * 400_000, rel=0.02)
    assert packets / connections == pytest.approx(32, rel=0.02)


def test_tile_repeats_each_packet_for_each_user(few_captures: Path, tmp_path: Path) -> None:
    original = few_captures / "aa-gprs/peak.pcap"
    _, frames = records(original)
    tiled = tmp_path / "tiled.pcap"
    assert tile(original, tiled, packets=1, repeats=3) == 3 * len(frames)
    _, repeated = records(tiled)
    assert len(repeated) == 3 * len(frames)
    assert np.array_equal(np.sort(repeated["captured"]), np.repeat(np.sort(frames["captured"]), 3))
