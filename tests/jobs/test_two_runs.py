"""Jobs at once on one warehouse: all succeed, and one that waits says so."""

import shutil
import subprocess
import sys
from pathlib import Path

from conftest import DAY, FEW, NETWORKS_FILE

from schemas import FLOWS, PACKETS
from spark_jobs.warehouse.store import Warehouse

GISCOPE = Path(sys.executable).with_name("giscope")


def begin(command: str, root: Path, *more: object) -> subprocess.Popen:
    arguments = [command, "--warehouse", root, "--networks", NETWORKS_FILE, *more]
    return subprocess.Popen(
        [GISCOPE, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def lines_of(jobs: list[subprocess.Popen]) -> list[str]:
    """Wait until all jobs succeed; return their lines on stderr, but for findings about packets."""
    stderrs = [job.communicate()[1] for job in jobs]
    assert [job.returncode for job in jobs] == [0] * len(jobs), stderrs
    return [line for text in stderrs for line in text.splitlines() if "peak hours" not in line]


def counts(root: Path) -> dict[str, int]:
    """Return the packets of each network; assert that each has flows, too."""
    connection = Warehouse(root).connect()
    of_flows = connection.sql(f"select distinct network from {FLOWS.name}").fetchall()
    packets = connection.sql(f"select network, count(*) from {PACKETS.name} group by network")
    assert {network for network, _ in packets.fetchall()} == {network for (network,) in of_flows}
    return dict(packets.fetchall())


def test_a_second_run_says_that_it_waits(few_captures, tmp_path):
    root = tmp_path / "w"
    for network in ("aa-gprs", "bb-gprs"):
        shutil.copytree(few_captures / network, tmp_path / network / network)
    same = [begin("run", root, few_captures) for _ in range(2)]
    others = [begin("run", root, tmp_path / network) for network in ("aa-gprs", "bb-gprs")]
    waits = f"giscope: {root}: another run is in progress: waiting for its end"
    lines = lines_of([*same, *others])
    assert set(lines) == {waits}
    assert len(lines) <= 3
    assert counts(root) == {"aa-gprs": FEW, "bb-gprs": FEW}


def test_single_steps_beside_a_run_succeed(few_captures, tmp_path):
    root = tmp_path / "w"
    assert lines_of([begin("run", root, few_captures)]) == []
    pcap = few_captures / "aa-gprs/peak.pcap"
    jobs = [
        begin("run", root, few_captures),
        begin("flows", root, "--network", "aa-gprs", "--date", DAY),
        begin("flows", root, "--network", "aa-gprs", "--date", DAY),
        begin("ingest", root, "--network", "aa-gprs", pcap),
        begin("check", root),
    ]
    assert lines_of(jobs) == []
    assert counts(root) == {"aa-gprs": FEW, "bb-gprs": FEW}
