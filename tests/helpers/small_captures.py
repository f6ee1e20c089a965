"""Captures of a few packets, ingested."""

from pathlib import Path

from conftest import NOON
from scapy.layers.inet import IP, TCP

from spark_jobs.ingest.job import ingest_capture
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.capture_files import Frame, pcap

US = 1_000_000


def ingest_syns(
    warehouse: Warehouse, network: Network, folder: Path, begin_s: int = NOON, **captures: int
) -> None:
    """Ingest captures, each with so many packets of its own, one a second, from the same time
    on."""
    for name, packets in captures.items():
        ip, first = IP(src="10.64.0.1", dst="198.51.100.1"), 1000 * ord(name)
        syns = [Frame(bytes(ip / TCP(seq=first + n)), (begin_s + n) * US) for n in range(packets)]
        capture = folder / f"{name}.pcap"
        capture.write_bytes(pcap(syns))
        assert ingest_capture(warehouse, network, capture).error is None


def packets_of(warehouse: Warehouse) -> list[int]:
    """Return the number of packets of each capture, in order of names."""
    query = "select count(*) from packets group by capture order by capture"
    return [packets for (packets,) in warehouse.connect(query).execute(query).fetchall()]
