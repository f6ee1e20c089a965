"""Files of packets without QUIC's have no QUIC columns, and are read as if they had them."""

import pyarrow.parquet as pq
import pytest
from conftest import NOON

from schemas import PACKETS
from spark_jobs.ingest.job import ingest_capture
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse import compaction
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.small_captures import ingest_syns
from tests.programs.bench.quic import PACKETS_OF_A_CONNECTION, write_quic

pytestmark = pytest.mark.usefixtures("in_this_process")


def columns_of_files(warehouse: Warehouse) -> set[tuple[str, ...]]:
    """Return the columns that files of packets have, without the table's others."""
    stored = [pq.read_schema(path).names for path in warehouse.files(PACKETS)]
    return {tuple(name for name in PACKETS.sparse if name in names) for names in stored}


@pytest.fixture
def mixed(plain_network: Network, tmp_path) -> Warehouse:
    """Return a warehouse with three small captures of TCP and one of QUIC on the same day."""
    warehouse = Warehouse(tmp_path / "warehouse")
    ingest_syns(warehouse, plain_network, tmp_path, a=3, b=4, c=5)
    write_quic(tmp_path / "quic.pcap", PACKETS_OF_A_CONNECTION, 1_000_000 * NOON)
    assert ingest_capture(warehouse, plain_network, tmp_path / "quic.pcap").error is None
    return warehouse


def test_only_files_with_quic_have_its_columns(mixed):
    assert columns_of_files(mixed) == {(), PACKETS.sparse}


def test_queries_see_all_columns_of_all_files(mixed):
    query = """
        select quic_form is null, count(*), count(tcp_flags), count(quic_spin), max(quic_version)
        from packets group by all order by all
    """
    n = PACKETS_OF_A_CONNECTION
    assert mixed.connect(query).execute(query).fetchall() == [
        (False, n, 0, n - 3, 1),
        (True, 12, 12, 0, None),
    ]


@pytest.fixture
def two_are_merged(monkeypatch) -> None:
    """Have two small files merged."""
    monkeypatch.setattr(compaction, "MIN_FILES", 2)


@pytest.mark.usefixtures("two_are_merged")
def test_captures_without_quic_are_merged_to_files_without_its_columns(plain_network, tmp_path):
    warehouse = Warehouse(tmp_path / "warehouse")
    ingest_syns(warehouse, plain_network, tmp_path, a=3, b=4, c=5)
    warehouse.compact()
    assert len(warehouse.files(PACKETS)) == 1
    assert columns_of_files(warehouse) == {()}


@pytest.mark.usefixtures("two_are_merged")
def test_captures_with_and_without_quic_are_merged(mixed):
    mixed.compact()
    assert len(mixed.files(PACKETS)) == 1
    assert columns_of_files(mixed) == {PACKETS.sparse}
    test_queries_see_all_columns_of_all_files(mixed)
