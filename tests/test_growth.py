"""The time per packet is bounded, whatever an end of a connection sends."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas import FLOWS
from spark_jobs.jobs.flows import days_with_packets
from spark_jobs.tables.day_plan import work_items
from spark_jobs.tables.day_tables import make_flows
from spark_jobs.warehouse.store import Warehouse
from tests.programs.bench.growth import FACTOR, ROUNDS, cpu_seconds, network
from tests.programs.bench.peers import ingest_all
from tests.programs.bench.shapes import SHAPES, write

FEW = 20_000
LIMIT = 6
"""Growth of the time with FACTOR times the packets: 4, and what a busy machine adds."""


def flow(shape: str, packets: int, folder: Path) -> dict:
    """Return the row of the only connection of a shape."""
    write(SHAPES[shape](packets), folder / "capture.pcap")
    warehouse = Warehouse(folder / "warehouse")
    ingest_all(warehouse, network(), folder / "capture.pcap")
    [day] = days_with_packets(warehouse, network().name)
    with warehouse.staging() as staging:
        [item] = work_items(warehouse, network(), day, staging.path)
        make_flows(item)
        table: pa.Table = pq.read_table(item.targets[FLOWS.name].path)
    [row] = table.to_pylist()
    return row


@pytest.mark.parametrize("shape", SHAPES)
def test_four_times_the_packets_take_at_most_six_times_the_time(shape):
    few = many = float("inf")
    for _ in range(ROUNDS):
        few = min(few, cpu_seconds(shape, FEW))
        many = min(many, cpu_seconds(shape, FACTOR * FEW))
        if many <= LIMIT * few:
            return
    pytest.fail(f"{FEW} packets take {few:.2f} s, {FACTOR * FEW} take {many:.2f} s")


def test_repetitions_of_a_segment_are_counted_and_lost(tmp_path):
    """The handshake and the request are four packets; every second one of the others is data."""
    row = flow("repeated_segment", 10_004, tmp_path)
    assert row["packets_down"] == 5001
    assert row["retransmissions"] == 4999
    assert row["payload_bytes_down"] == 1000
    assert row["lost_access_expected"] == pytest.approx(5000, abs=2)


def test_what_a_server_did_is_unknown_if_it_takes_too_much_work(tmp_path):
    """Each second ACK reports all data in one block; the sizes of the blocks add up."""
    (tmp_path / "small").mkdir()
    (tmp_path / "large").mkdir()
    assert flow("large_blocks_in_turns", 1000, tmp_path / "small")["retransmissions"] == 0
    row = flow("large_blocks_in_turns", 50_000, tmp_path / "large")
    assert row["data_packets_down"] == 24_998
    assert row["retransmissions"] is row["rto_expiries"] is row["limited_by"] is None
