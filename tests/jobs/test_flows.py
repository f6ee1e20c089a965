"""Packets to flows: the same for any number of cores, user partitions and files; each connection
once, on one day."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from conftest import CAPTURES, REPORTS, ask
from scapy.layers.inet import IP, TCP, UDP

import spark_jobs.jobs.flows as job
from schemas import FLOWS
from spark_jobs.ingest.job import ingest_capture
from spark_jobs.settings.networks import Network
from spark_jobs.tables import day_plan, day_tables
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.capture_files import Frame, pcap
from tests.helpers.stale_days import stale_days

US = 1_000_000
MIDNIGHT = 1_078_272_000 * US
"""2004-03-03 00:00 UTC."""
DAY_BEFORE, DAY = date(2004, 3, 2), date(2004, 3, 3)
HOUR = 3600 * US

pytestmark = pytest.mark.usefixtures("in_this_process")


def up(ts: int, flags: str, seq: int, ack: int = 0, payload: int = 0, port: int = 1000) -> Frame:
    data = (
        IP(src="10.64.0.1", dst="198.51.100.1")
        / TCP(sport=port, dport=80, flags=flags, seq=seq, ack=ack)
        / bytes(payload)
    )
    return Frame(bytes(data), ts)


def down(ts: int, flags: str, seq: int, ack: int = 0, payload: int = 0, port: int = 1000) -> Frame:
    data = (
        IP(src="198.51.100.1", dst="10.64.0.1")
        / TCP(sport=80, dport=port, flags=flags, seq=seq, ack=ack)
        / bytes(payload)
    )
    return Frame(bytes(data), ts)


def handshake(ts: int, port: int = 1000) -> list[Frame]:
    return [
        up(ts, "S", 100, port=port),
        down(ts + US // 10, "SA", 300, 101, port=port),
        up(ts + US, "A", 101, 301, port=port),
    ]


def test_data_in_fragments_counts_for_the_connection(warehouse, network):
    """Three segments of 1,400 B in two fragments each, one RTT, nothing lost."""
    result = ingest_capture(warehouse, network, REPORTS / "min_ip_fragments.pcap")
    assert (result.error, result.facts.skipped) == (None, {"fragments_joined": 3})
    job.publish_flows(warehouse, [(network, date(2023, 11, 14))])
    asked = """
        select payload_bytes_down, acked_unseen_bytes, lost_internet, lost_access, retransmissions,
            "single"
        from flows
    """
    assert ask(warehouse, asked).fetchall() == [(4200, 0, 0, 0, 0, True)]


def put(warehouse: Warehouse, network: Network, name: str, frames: list[Frame]) -> None:
    capture = warehouse.root.parent / name
    capture.write_bytes(pcap(sorted(frames, key=lambda frame: frame.ts)))
    assert ingest_capture(warehouse, network, capture).error is None


def flows_of(warehouse: Warehouse, network: Network, *days: date) -> pa.Table:
    job.publish_flows(warehouse, [(network, day) for day in days])
    query = f"select {', '.join(FLOWS.arrow.names)}, date from flows order by start_ts, flow_id"
    return ask(warehouse, query).to_arrow_table()


def test_connection_across_midnight_is_on_the_day_it_starts(warehouse, network):
    put(
        warehouse,
        network,
        "a.pcap",
        [*handshake(MIDNIGHT - 10 * US), down(MIDNIGHT + 5 * US, "A", 301, 101, 1000)],
    )
    (flow,) = flows_of(warehouse, network, DAY_BEFORE, DAY).to_pylist()
    assert flow["date"] == DAY_BEFORE
    assert flow["payload_bytes_down"] == 1000


def test_connection_across_midnight_and_captures_is_whole(warehouse, network):
    put(warehouse, network, "a.pcap", handshake(MIDNIGHT - 10 * US))
    put(warehouse, network, "b.pcap", [down(MIDNIGHT + 5 * US, "A", 301, 101, 1000)])
    put(warehouse, network, "c.pcap", [down(MIDNIGHT + 9 * US, "A", 1301, 101, 500)])
    (flow,) = flows_of(warehouse, network, DAY_BEFORE, DAY).to_pylist()
    assert (flow["date"], flow["payload_bytes_down"]) == (DAY_BEFORE, 1500)


def test_connection_is_followed_for_hours_past_midnight(warehouse, network):
    talk = [down(MIDNIGHT + hour * HOUR, "A", 301 + hour, 101, 1) for hour in range(20)]
    put(warehouse, network, "a.pcap", [*handshake(MIDNIGHT - 10 * US), *talk])
    (flow,) = flows_of(warehouse, network, DAY_BEFORE, DAY).to_pylist()
    assert (flow["date"], flow["payload_bytes_down"]) == (DAY_BEFORE, 20)


def test_silence_beyond_the_idle_timeout_begins_a_partial_connection(warehouse, network):
    put(
        warehouse,
        network,
        "a.pcap",
        [*handshake(MIDNIGHT - 3 * HOUR), down(MIDNIGHT + US, "A", 301, 101, 1000)],
    )
    first, second = flows_of(warehouse, network, DAY_BEFORE, DAY).to_pylist()
    assert (first["date"], first["initiator"]) == (DAY_BEFORE, "mobile")
    assert (second["date"], second["initiator"]) == (DAY, "unknown")


def test_background_traffic_before_midnight_counts(warehouse, network):
    datagram = IP(src="198.51.100.9", dst="10.64.0.1") / UDP(sport=53, dport=53)
    put(
        warehouse,
        network,
        "a.pcap",
        [Frame(bytes(datagram), MIDNIGHT - US), *handshake(MIDNIGHT + US)],
    )
    (flow,) = flows_of(warehouse, network, DAY).to_pylist()
    assert flow["setup_background"] is True


def of_user(last: int, frames: list[Frame]) -> list[Frame]:
    """Return the same frames of another user, 10.64.0.<last>."""
    mine, others = bytes([10, 64, 0, 1]), bytes([10, 64, 0, last])
    return [replace(frame, data=frame.data.replace(mine, others)) for frame in frames]


def test_around_midnight_only_users_with_open_connections_are_read(warehouse, plain_network):
    goes_on = [*handshake(MIDNIGHT - HOUR), up(MIDNIGHT + HOUR, "A", 101, 301)]
    returns = handshake(MIDNIGHT - 3 * HOUR) + handshake(MIDNIGHT + HOUR, port=2000)
    frames = goes_on + of_user(2, returns) + of_user(3, handshake(MIDNIGHT + HOUR))
    put(warehouse, plain_network, "a.pcap", frames)

    def read(day: date) -> dict[str, int]:
        with warehouse.staging() as staging:
            (item,) = day_plan.work_items(warehouse, plain_network, day, staging.path)
            partition = day_tables.read_partition(item)
        packets = np.diff(partition.packets.first).tolist()
        return {user: n for user, n in zip(partition.names.users, packets, strict=True) if n}

    assert read(DAY_BEFORE) == {"10.64.0.1": 4, "10.64.0.2": 3}
    assert read(DAY) == {"10.64.0.1": 4, "10.64.0.2": 3, "10.64.0.3": 3}


def flows_of_demo(demo, network: str) -> list[dict]:
    query = f"select {', '.join(FLOWS.arrow.names)} from flows where network = ? order by flow_id"
    return ask(demo.warehouse, query, [network]).to_arrow_table().to_pylist()


def flows_made_with(tmp_path: Path, network: Network, captures: list[Path]) -> list[dict]:
    warehouse = Warehouse(tmp_path / "otherwise")
    for path in captures:
        assert ingest_capture(warehouse, network, path).error is None
    job.publish_flows(warehouse, [(network, DAY_BEFORE)])
    query = f"select {', '.join(FLOWS.arrow.names)} from flows order by flow_id"
    return ask(warehouse, query).to_arrow_table().to_pylist()


CAPTURE = CAPTURES / "bb-gprs/peak.pcap.zst"


@pytest.mark.parametrize("partitions", [1, 5])
def test_same_flows_with_other_partitions(demo, networks, tmp_path, partitions):
    network = networks["bb-gprs"].model_copy(update={"user_partitions": partitions})
    assert flows_made_with(tmp_path, network, [CAPTURE]) == flows_of_demo(demo, "bb-gprs")


def test_same_flows_when_a_partition_is_read_in_parts(demo, networks, tmp_path, monkeypatch):
    monkeypatch.setattr(day_plan, "MAX_TASK_PACKETS", 2000)
    assert flows_made_with(tmp_path, networks["bb-gprs"], [CAPTURE]) == flows_of_demo(
        demo, "bb-gprs"
    )


def test_same_flows_when_the_capture_is_split(demo, networks, tmp_path):
    import zstandard

    whole = tmp_path / "whole.pcap"
    with CAPTURE.open("rb") as source, whole.open("wb") as target:
        zstandard.ZstdDecompressor(max_window_size=1 << 27).copy_stream(source, target)
    data = whole.read_bytes()
    cuts, at = [24], 24
    while at < len(data):
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        if at - cuts[-1] > len(data) // 5:
            cuts.append(at)
    pieces = []
    for number, (low, high) in enumerate(zip(cuts, [*cuts[1:], len(data)], strict=True)):
        piece = tmp_path / f"z{9 - number}.pcap"
        piece.write_bytes(data[:24] + data[low:high])
        pieces.append(piece)
    assert len(pieces) > 3
    assert flows_made_with(tmp_path, networks["bb-gprs"], pieces) == flows_of_demo(demo, "bb-gprs")


def test_rerun_gives_the_same_rows_and_ids(demo, networks):
    before = flows_of_demo(demo, "aa-gprs")
    job.publish_flows(demo.warehouse, [(networks["aa-gprs"], DAY_BEFORE)])
    assert flows_of_demo(demo, "aa-gprs") == before
    assert len({flow["flow_id"] for flow in before}) == len(before)


def test_day_is_stale_once_packets_of_the_next_day_arrive(warehouse, network):
    put(warehouse, network, "a.pcap", handshake(MIDNIGHT - 10 * US))
    job.publish_flows(warehouse, [(network, DAY_BEFORE)])
    assert (network, DAY_BEFORE) not in stale_days(warehouse, [network])
    put(warehouse, network, "b.pcap", [down(MIDNIGHT + 5 * US, "A", 301, 101, 1000)])
    assert (network, DAY_BEFORE) in stale_days(warehouse, [network])


def test_no_task_reads_more_than_a_cores_share_of_the_day(demo, networks, monkeypatch):
    """Provided its packets are of several users; the largest tasks come first."""
    network = networks["bb-gprs"]
    monkeypatch.setattr(day_plan, "JOINT_TASK_PACKETS", (1, 1))

    def read_by_tasks(cores: int) -> list[int]:
        monkeypatch.setattr(day_plan.os, "sched_getaffinity", lambda pid: set(range(cores)))
        with demo.warehouse.staging() as staging:
            items = list(day_plan.work_items(demo.warehouse, network, DAY_BEFORE, staging.path))
            made = [day_tables.make_flows(item) for item in items]
        rows = sum(file.rows for one in made for file in one.files if file.belongs_to(FLOWS))
        assert rows == len(flows_of_demo(demo, "bb-gprs"))
        return [item.part[1] for item in items]

    one_core, many_cores = read_by_tasks(1), read_by_tasks(32)
    assert set(one_core) == {1}
    assert len(many_cores) > len(one_core)
    assert many_cores == sorted(many_cores, reverse=True)


def test_a_day_is_published_before_those_after_it_are_made(warehouse, network, monkeypatch):
    """A later failure, or kill, leaves it published."""
    put(warehouse, network, "one.pcap", handshake(MIDNIGHT - HOUR))
    put(warehouse, network, "two.pcap", handshake(MIDNIGHT + HOUR))

    def only_the_first(item):
        if item.names.day == DAY:
            raise OSError("no more")
        return make(item)

    make = day_tables.make_flows
    monkeypatch.setattr(day_tables, "make_flows", only_the_first)
    assert job.bring_up_to_date(warehouse, [network]) == {(network.name, DAY_BEFORE): 1}
    assert stale_days(warehouse, [network]) == [(network, DAY)]
    assert len(warehouse.files(FLOWS, network.name, DAY_BEFORE)) == 1
