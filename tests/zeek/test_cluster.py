"""A cluster on one machine: a manager, a logger and two workers that share the connections give the
rows of one Zeek."""

import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.helpers.live import PATIENCE, between, ingested, monitored, rows, until
from tests.helpers.zeek_program import SCRIPTS, SUBSCRIBERS_SCRIPT

LAYOUT = """
redef Cluster::manager_is_logger = F;
redef Cluster::nodes = {
	["manager"] = [$node_type=Cluster::MANAGER, $ip=127.0.0.1, $p=27760/tcp],
	["logger"] = [$node_type=Cluster::LOGGER, $ip=127.0.0.1, $p=27761/tcp, $manager="manager"],
	["worker-1"] = [$node_type=Cluster::WORKER, $ip=127.0.0.1, $p=27762/tcp, $manager="manager"],
	["worker-2"] = [$node_type=Cluster::WORKER, $ip=127.0.0.1, $p=27763/tcp, $manager="manager"],
};
"""
SHARES = {
    "manager": [],
    "logger": [],
    "worker-1": ["-i", "monitor", "-f", "ip and (ip[15] + ip[19]) & 1 = 0"],
    "worker-2": ["-i", "monitor", "-f", "ip and (ip[15] + ip[19]) & 1 = 1"],
}
"""What each node listens to: by the last bits of both addresses, whichever way a packet goes."""

pytestmark = pytest.mark.usefixtures("zeek_plugin")


@pytest.fixture
def nodes(tmp_path: Path, place) -> dict[str, subprocess.Popen]:
    """The cluster's processes, connected with each other; each in a folder of its name."""
    (tmp_path / "cluster-layout.zeek").write_text(LAYOUT)
    (tmp_path / "subscribers.zeek").write_text(SUBSCRIBERS_SCRIPT)
    settings = [f"GiScope::landing={place.landing}", "GiScope::rotation_interval=2sec"]
    scripts = [SCRIPTS / f"{place.entry}.zeek", tmp_path / "subscribers.zeek", *settings]
    path = f"{tmp_path}{os.pathsep}{os.environ['ZEEKPATH']}"
    started = {}
    for name, share in SHARES.items():
        folder = tmp_path / name
        folder.mkdir()
        command = ["zeek", "-b", "-C", *share, "base/frameworks/cluster", *scripts]
        started[name] = subprocess.Popen(
            ["ip", "netns", "exec", place.link.namespace, *command],
            cwd=folder,
            env=os.environ | {"CLUSTER_NODE": name, "ZEEKPATH": path},
            stdout=subprocess.DEVNULL,
            stderr=(folder / "stderr").open("w"),
        )
    try:
        joined = tmp_path / "logger/cluster.log"
        until(
            lambda: joined.exists() and joined.read_text().count("got hello from logger") == 3,
            "all nodes have met the logger",
        )
        yield started
    finally:
        for process in started.values():
            process.kill()
            process.wait()


def test_rows_are_those_of_one_zeek(place, nodes, warehouse, network, expected):
    frames = between(100, 115)
    place.link.send(frames, "--pps=1000")
    until(lambda: received(place) >= len(frames), "the workers have counted all packets")
    for names in (("worker-1", "worker-2"), ("logger", "manager")):
        for name in names:
            nodes[name].send_signal(signal.SIGTERM)
        assert [nodes[name].wait(PATIENCE) for name in names] == [0, 0]
    ingested(warehouse, network, place.landed())
    assert Counter(rows(warehouse)) == Counter(expected(frames))
    assert monitored(place.landed("monitor")) == {"received": len(frames), "dropped": 0}
    writers = {path.name.split("-giscope")[0] for path in place.landed()}
    assert writers == ({"logger"} if place.entry == "bare" else {"worker-1", "worker-2"})


def received(place) -> int:
    return monitored(place.landed("monitor"))["received"]
