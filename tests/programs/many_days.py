"""Captures of very many days, each a few packets of a shipped one:
`python -m tests.programs.many_days FOLDER NETWORKS DAYS` writes them and their networks file."""

import struct
import sys
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import zstandard

SHIPPED = Path(__file__).parents[1] / "data/captures/aa-gprs/peak.pcap.zst"
FIRST = date(2004, 3, 2)
PCAP_HEADER_BYTES, RECORD = 24, struct.Struct("<4I")
PACKETS = 200
NETWORK = """[[network]]
name = "{name}"
country = "AA"
access = "gprs"
timezone = "Europe/Budapest"
subscribers = ["10.64.0.0/14"]
user_partitions = 1
"""


def write_captures(folder: Path, networks: int, days: int) -> Path:
    """Write folder/captures/<network>/<day>.pcap and folder/networks.toml; return the latter's
    path."""
    with SHIPPED.open("rb") as file:
        data = zstandard.ZstdDecompressor().stream_reader(file).read(1 << 20)
    names = [f"n{n:03d}" for n in range(networks)]
    for name in names:
        place = folder / "captures" / name
        place.mkdir(parents=True)
        for n in range(days):
            (place / f"{FIRST + timedelta(days=n)}.pcap").write_bytes(
                moved(data, timedelta(days=n), PACKETS)
            )
    file = folder / "networks.toml"
    file.write_text("\n".join(NETWORK.format(name=name) for name in names))
    return file


def moved(data: bytes, later: timedelta, packets: int | None = None) -> bytes:
    """Return a pcap file's first packets, or all of them, with later times."""
    out, at = [data[:PCAP_HEADER_BYTES]], PCAP_HEADER_BYTES
    while at < len(data) and (packets is None or len(out) <= packets):
        seconds, *rest = RECORD.unpack_from(data, at)
        end = at + RECORD.size + rest[1]
        record = RECORD.pack(seconds + int(later.total_seconds()), *rest)
        out += [record + data[at + RECORD.size : end]]
        at = end
    return b"".join(out)


def parts(data: bytes, files: int) -> Iterator[bytes]:
    """Yield so many pcap files with about as many packets each, which are those of one file."""
    ends = [PCAP_HEADER_BYTES]
    while ends[-1] < len(data):
        ends.append(ends[-1] + RECORD.size + RECORD.unpack_from(data, ends[-1])[2])
    firsts = [n * (len(ends) - 1) // files for n in range(files + 1)]
    for first, last in pairwise(firsts):
        yield data[:PCAP_HEADER_BYTES] + data[ends[first] : ends[last]]


if __name__ == "__main__":
    print(write_captures(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
