"""Targets are put together and taken apart in one module."""

import re
from datetime import date

import pytest
from conftest import ROOT

from schemas import NETWORKS, PACKETS
from spark_jobs.warehouse.targets import (
    DATA_NAME,
    NO_DATE,
    Partition,
    day_text,
    network_of,
    stem,
    table_name,
)

PARTITIONS = (
    Partition(PACKETS, "aa-gprs", date(2004, 3, 29)),
    Partition(PACKETS, "aa-gprs", None),
    Partition(NETWORKS, "aa-gprs", None),
)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_target_says_its_partition(partition):
    target = partition.target("morning-1", "01234567")
    assert Partition.of(target) == partition
    assert DATA_NAME.fullmatch(target)
    assert (table_name(target), stem(target)) == (partition.table.name, "morning-1")
    assert network_of(f"/warehouse/{target}") == network_of(target) == partition.network
    assert day_text(target) == (partition.date.isoformat() if partition.date else NO_DATE)


def test_no_other_module_knows_a_path():
    """No string of the code has a partition's folder but in targets.py."""
    folder = re.compile(r"""["'/](network|date)=["'/{(\[]""")
    modules = [
        path for top in ("spark_jobs", "dags", "infra") for path in (ROOT / top).rglob("*.py")
    ]
    found = {path.name for path in modules if folder.search(path.read_text())}
    assert found == {"targets.py"}
