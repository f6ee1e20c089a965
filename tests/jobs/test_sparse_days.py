"""A capture with few packets a day: what each day and user of it costs, and its flows."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import NETWORKS_FILE, ROOT, ask

import spark_jobs.jobs.flows as flows_job
from schemas import PACKETS
from spark_jobs.capture import columns
from spark_jobs.ingest.job import ingest_capture
from spark_jobs.tables import day_plan
from spark_jobs.warehouse.store import Warehouse
from tests.programs.bench.mix import EXCHANGE, FIRST_USER, RECORD, short_exchanges

DAYS, PACKETS_MADE, DAY_S = 400, 100_000, 86_400
MOST = 5
"""Times the cost of the same packets on one day."""


def written(target: Path, days: int) -> Path:
    """Write a capture whose packets each have a user of their own and a random day."""
    short_exchanges(target, FIRST_USER + np.arange(PACKETS_MADE // len(EXCHANGE)))
    data = target.read_bytes()
    records = np.frombuffer(data, RECORD, offset=24).copy()
    rng = np.random.default_rng(1)
    user = FIRST_USER + rng.permutation(PACKETS_MADE)
    uplink = records["source"] >> 24 == 10
    records["source"] = np.where(uplink, user, records["source"])
    records["target"] = np.where(uplink, records["target"], user)
    records["s"] += (rng.integers(0, days, PACKETS_MADE) * DAY_S).astype(np.uint32)
    order = np.lexsort((records["us"], records["s"]))
    target.write_bytes(data[:24] + records[order].tobytes())
    return target


def test_bytes_of_many_days_are_bounded(warehouse, network, tmp_path):
    size = {}
    for days in (1, DAYS):
        store = Warehouse(tmp_path / f"{days}")
        capture = written(tmp_path / "a.pcap", days)
        result = ingest_capture(store, network, capture)
        assert (result.facts.packets, len(result.dates)) == (PACKETS_MADE, days)
        size[days] = sum(path.stat().st_size for path in store.files(PACKETS))
    assert size[DAYS] < MOST * size[1]


WORKER = """
import json, resource, sys, time
from pathlib import Path
from spark_jobs.ingest.job import ingest_capture
from spark_jobs.settings.networks import load_networks
from spark_jobs.warehouse.store import Warehouse
networks, folder, warm, capture = map(Path, sys.argv[1:])
network = load_networks(networks)["aa-gprs"]
ingest_capture(Warehouse(folder / "warm"), network, warm)
begun = time.process_time()
ingest_capture(Warehouse(folder / "w"), network, capture)
spent = time.process_time() - begun
print(json.dumps([spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))
"""


@pytest.mark.slow
def test_time_and_memory_of_many_days_are_bounded(tmp_path):
    warm, cost = written(tmp_path / "warm.pcap", 1), {}
    for days in (1, DAYS):
        capture = written(tmp_path / f"{days}.pcap", days)
        arguments = (NETWORKS_FILE, tmp_path / f"{days}", warm, capture)
        command = [sys.executable, "-c", WORKER, *map(str, arguments)]
        cost[days] = np.array(json.loads(subprocess.check_output(command, cwd=ROOT)))
    assert (cost[DAYS] < MOST * cost[1]).all()


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("partitions_together", [True, False])
def test_flows_are_the_same_from_a_row_group_of_many_partitions(
    warehouse, network, tmp_path, monkeypatch, partitions_together
):
    """The flows are those of row groups of one user partition each, whether one task reads all or
    each its own."""
    if not partitions_together:
        monkeypatch.setattr(day_plan, "JOINT_TASK_PACKETS", (1, 1))
    users = 100
    short_exchanges(tmp_path / "a.pcap", FIRST_USER + np.arange(users))
    found, row_groups = [], []
    for few in (columns.MIN_PACKETS_TO_SPLIT, 0):
        monkeypatch.setattr(columns, "MIN_PACKETS_TO_SPLIT", few)
        store = Warehouse(tmp_path / f"{few}")
        result = ingest_capture(store, network, tmp_path / "a.pcap")
        flows_job.publish_flows(store, [(network, day) for day in result.dates])
        query = 'select * from flows order by "user", user_port'
        found.append(ask(store, query).fetchall())
        metadata = "select count(distinct row_group_id) from parquet_metadata(?)"
        [path] = store.files(PACKETS)
        row_groups += ask(store, metadata, [str(path)]).fetchone()
    assert row_groups == [1, network.user_partitions]
    assert found[0] == found[1]
    assert len(found[0]) == users
