"""A job killed at any moment leaves the old table or the new one. Slow: real processes."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import CAPTURES, NETWORKS_FILE

from spark_jobs.jobs.ingest import ingest_capture
from spark_jobs.warehouse import Warehouse

JOB = """
import sys
from pathlib import Path
from spark_jobs.jobs.ingest import ingest_capture
from spark_jobs.networks import load_networks
from spark_jobs.warehouse import Warehouse
network = load_networks(Path(sys.argv[1]))["bb-gprs"]
print("ready", flush=True)
result = ingest_capture(Warehouse(Path(sys.argv[2])), network, Path(sys.argv[3]))
print(result.error, flush=True)
"""


def counts(warehouse: Warehouse) -> tuple[int, int]:
    """Packets in the table, and in the folders as another program would see them."""
    connection = warehouse.connect()
    (packets,) = connection.execute("select count(*) from packets").fetchone()
    (logged,) = connection.execute("select coalesce(sum(packets), 0) from ingest_log").fetchone()
    return packets, int(logged)


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0])
def test_killed_ingest_leaves_old_or_new(tmp_path, networks, after_s):
    first = CAPTURES / "bb-gprs/peak.pcap.zst"
    second = CAPTURES / "aa-gprs/peak.pcap.zst"
    capture = tmp_path / "peak.pcap.zst"
    warehouse = Warehouse(tmp_path / "w")
    capture.symlink_to(first)
    old = ingest_capture(warehouse, networks["bb-gprs"], capture).packets
    capture.unlink()
    capture.symlink_to(second)
    job = subprocess.Popen(
        [sys.executable, "-c", JOB, str(NETWORKS_FILE), str(warehouse.root), str(capture)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert job.stdout.readline() == "ready\n"
    time.sleep(after_s)
    job.kill()
    job.wait()
    packets, logged = counts(warehouse)
    assert packets == logged
    assert packets in (old, 149_626)
    assert ingest_capture(warehouse, networks["bb-gprs"], capture).error is None
    assert counts(warehouse) == (149_626, 149_626)
