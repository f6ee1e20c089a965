"""Marks of ECN beside the truth: Linux with tcp_ecn = 1 behind a queue that marks (tests/data/ecn).

`python -m tests.programs.lab FOLDER tests/programs/lab/profiles/ecn.toml` records it. The queue is
on the access side, so Gi sees no mark; the truth names the packets that it marked.
"""

from collections import Counter

import pandas as pd
import pytest
from conftest import ROOT, ask

from spark_jobs.ingest.job import ingest_capture
from spark_jobs.jobs.flows import publish_flows

FOLDER = ROOT / "tests/data/ecn"
CWR, SYN = 128, 2

pytestmark = pytest.mark.usefixtures("in_this_process")


def frames(name: str) -> set[int]:
    return set(pd.read_csv(FOLDER / f"{name}.csv.zst")["frame"].tolist())


def test_episodes_of_marks_are_those_of_the_queue_and_of_the_servers_kernel(warehouse, network):
    """A connection has episodes if the mobile received marked packets. Each ends by the server's
    CWR, if the capture goes on; servers also set it after a loss."""
    result = ingest_capture(warehouse, network, FOLDER / "gi.pcap.zst")
    assert result.error is None
    publish_flows(warehouse, [(network, day) for day in result.dates])
    warehouse.update_views()
    received = frames("frames_marked") - frames("frames_lost")
    marks, reductions = Counter(), Counter()
    query = 'select frame, "user", user_port, downlink, coalesce(tcp_flags, 0) from packets'
    for frame, user, port, downlink, flags in ask(warehouse, query).fetchall():
        marks[user, port] += frame in received
        reductions[user, port] += bool(downlink and flags & CWR and not flags & SYN)
    flows = ask(warehouse, "from flows").to_arrow_table().to_pylist()
    assert len(flows) == 32
    assert sum(marks.values()) == len(received) == 2720
    for flow in flows:
        connection = flow["user"], flow["user_port"]
        episodes = flow["ecn_episodes_access"]
        assert flow["ecn"] == "classic"
        assert flow["ect_down"] >= flow["data_packets_down"] - flow["retransmissions"]
        assert (flow["ce_down"], flow["ecn_episodes_internet"]) == (0, 0)
        assert (episodes > 0) == (marks[connection] > 0)
        if not flow["retransmissions"]:
            assert reductions[connection] <= episodes <= reductions[connection] + 1
    exact = [
        flow["ecn_episodes_access"] == reductions[flow["user"], flow["user_port"]]
        for flow in flows
        if not flow["retransmissions"]
    ]
    assert (sum(exact), len(exact)) == (20, 21)
