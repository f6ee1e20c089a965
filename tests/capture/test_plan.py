"""The plan of an ingest: one file of each capture is read, if its rows are not there yet."""

import os
from pathlib import Path

import pytest

from spark_jobs.base.places import NOT_REGULAR
from spark_jobs.capture import FrontEnd
from spark_jobs.capture.plan import Plan, plan_ingest
from spark_jobs.capture.stamp import stamp
from spark_jobs.warehouse.facts import CaptureFacts


@pytest.fixture
def capture(tmp_path) -> Path:
    path = tmp_path / "a.pcap"
    path.write_bytes(b"packets")
    return path


def plan(network, *paths: Path, facts: CaptureFacts | None = None) -> Plan:
    return plan_ingest([(network, path) for path in paths], lambda *_: facts, FrontEnd.AUTO)


def test_a_file_is_read_until_its_rows_are_there(network, capture):
    facts = CaptureFacts(stamp=stamp(capture, network, FrontEnd.BUILTIN))
    assert plan(network, capture) == Plan(to_read=[(network, capture)])
    assert plan(network, capture, facts=facts) == Plan(unchanged={(network, capture): facts})


def test_a_file_is_read_again_if_its_rows_would_be_others(network, capture):
    facts = CaptureFacts(stamp=stamp(capture, network, FrontEnd.BUILTIN))
    fewer = network.model_copy(update={"user_partitions": 1})
    assert plan(fewer, capture, facts=facts).to_read == [(fewer, capture)]
    capture.write_bytes(b"more packets")
    assert plan(network, capture, facts=facts).to_read == [(network, capture)]


def test_a_missing_file_is_left_to_the_reader(network, tmp_path):
    facts = CaptureFacts()
    assert plan(network, tmp_path / "a.pcap", facts=facts).to_read == [
        (network, tmp_path / "a.pcap")
    ]


def test_a_pipe_is_not_read(network, tmp_path):
    path = tmp_path / "a.pcap"
    os.mkfifo(path)
    assert plan(network, path).errors == {(network, path): f"{path}: {NOT_REGULAR}"}
