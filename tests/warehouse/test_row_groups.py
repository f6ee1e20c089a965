"""Row groups of packets keep their contract, whoever writes them, and one module knows them."""

import ast
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from conftest import NOON, ROOT

from schemas import PACKETS
from spark_jobs.capture import columns
from spark_jobs.ingest.job import ingest
from spark_jobs.jobs.remove_data import forget
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse import compaction
from spark_jobs.warehouse.row_groups import (
    in_capture_order,
    read_columns,
    row_groups,
    rows_by_capture,
)
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.small_captures import ingest_syns
from tests.programs.bench.mix import EXCHANGE, FIRST_USER, short_exchanges

USERS = 200
KEYS = ("user_partition", "user", "ts", "frame")
"""The columns by which the packets of a row group are sorted."""
READERS_OF_ANY_FILE = {"row_groups.py", "search.py"}
"""Modules that read row groups: search.py looks for names in the bytes of every table's files."""

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture
def ingested(plain_network: Network, tmp_path, monkeypatch) -> Warehouse:
    """Return a warehouse with three captures: one with a row group for each user partition."""
    monkeypatch.setattr(compaction, "MIN_FILES", 3)
    warehouse = Warehouse(tmp_path / "w")
    short_exchanges(tmp_path / "large.pcap", FIRST_USER + np.arange(USERS))
    with monkeypatch.context() as patched:
        patched.setattr(columns, "MIN_PACKETS_TO_SPLIT", 0)
        (result,) = ingest(warehouse, [(plain_network, tmp_path / "large.pcap")])
        assert result.error is None
    ingest_syns(warehouse, plain_network, tmp_path, NOON, a=3, b=4)
    return warehouse


def kept(warehouse: Warehouse) -> dict[str, int]:
    """Check the contract of all row groups; return the number of each capture's row groups."""
    found: dict[str, int] = {}
    for path in warehouse.files(PACKETS):
        for group, (capture, rows) in zip(
            row_groups(path), rows_by_capture(path, PACKETS), strict=True
        ):
            assert rows["capture"].unique().to_pylist() == [capture] == [group.capture]
            partitions = pc.min_max(rows["user_partition"]).as_py()
            assert group.partitions == range(partitions["min"], partitions["max"] + 1)
            times = pc.min_max(rows["ts"].cast(pa.int64())).as_py()
            assert (group.first_us, group.last_us) == (times["min"], times["max"])
            assert group.rows == len(rows) > 0
            order = list(zip(*(rows[n].to_pylist() for n in KEYS), strict=True))
            assert order == sorted(order)
            for name in ("user", "server", "capture"):
                chunks = rows[name].chunks
                texts = {text for chunk in chunks for text in chunk.dictionary.to_pylist()}
                assert texts == set(rows[name].to_pylist())
            found[capture] = found.get(capture, 0) + 1
    return found


def row_count(path: Path) -> int:
    return sum(group.rows for group in row_groups(path))


def test_ingest_merge_split_and_removal_keep_the_contract(ingested, plain_network):
    expected = kept(ingested)
    assert expected == {"a.pcap": 1, "b.pcap": 1, "large.pcap": plain_network.user_partitions}
    assert ingested.compact()[1] > 0
    assert kept(ingested) == expected
    assert len(ingested.files(PACKETS)) < len(expected)
    forget(ingested, plain_network, ["10.64.0.1", "10.66.0.3"])
    assert kept(ingested).keys() == {"large.pcap"}
    assert sum(map(row_count, ingested.files(PACKETS))) == (USERS - 1) * len(EXCHANGE)


def test_a_row_group_is_read_for_the_partitions_wanted(ingested):
    (path,) = (p for p in ingested.files(PACKETS) if p.name.startswith("large"))
    groups = row_groups(path)
    assert in_capture_order(reversed(groups)) == groups
    group = groups[0]._replace(partitions=range(4))
    assert group.restricted_to((7,)) is None
    assert group.restricted_to((3, 2, 1, 0)) is group
    assert group.restricted_to((3, 9)).wanted == (3,)
    tables = [*read_columns(groups, ["user_partition", "ts"])]
    assert sum(map(len, tables)) == USERS * len(EXCHANGE) == sum(g.rows for g in groups)


def row_group_calls(path: Path) -> set[str]:
    """Return the names by which a module reads or writes row groups."""
    names = {"read_row_group", "read_row_groups", "row_group", "row_group_size", "iter_batches"}
    nodes = list(ast.walk(ast.parse(path.read_text())))
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    used |= {node.arg for node in nodes if isinstance(node, ast.keyword) and node.arg}
    return used & names


def test_no_other_module_touches_row_groups():
    found = {p.name for p in (ROOT / "spark_jobs").rglob("*.py") if row_group_calls(p)}
    # files.py hands a writer's rows to pyarrow.
    assert found == READERS_OF_ANY_FILE | {"files.py"}
