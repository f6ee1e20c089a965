"""Makes a capture of everything: the shipped captures side by side, and the short exchanges of the
web.

A single capture favours or burdens the program that reads it: the shipped ones differ in losses,
round trips, packets a connection; of a hundred thousand users with ten packets each, none has
enough for what costs by the user to be small.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from spark_jobs.capture import framing
from tests.programs.bench.tile import RECORD_HEADER, records, tile

CAPTURES = Path(__file__).parents[2] / "data/captures"
SHIPPED = (
    "aa-gprs/off-peak.pcap.zst",
    "aa-gprs/peak.pcap.zst",
    "bb-gprs/peak.pcap.zst",
    "cc-dialup/peak.pcap.zst",
)
MOST_REPETITIONS = 60
BEGIN_US = 1_078_221_600_000_000
"""2004-03-02, 10:00 UTC."""
HOUR_US = 3_600_000_000
SYN, ACK, PSH_ACK, FIN_ACK = 0x02, 0x10, 0x18, 0x11
EXCHANGE = (
    # downlink, flags, relative sequence, relative acknowledgement, payload, ms since the SYN
    (False, SYN, 0, 0, 0, 0),
    (True, SYN | ACK, 0, 1, 0, 40),
    (False, ACK, 1, 1, 0, 600),
    (False, PSH_ACK, 1, 1, 300, 610),
    (True, ACK, 1, 301, 0, 650),
    (True, PSH_ACK, 1, 301, 900, 700),
    (False, ACK, 301, 901, 0, 1400),
    (True, FIN_ACK, 901, 301, 0, 1410),
    (False, FIN_ACK, 301, 902, 0, 2000),
    (True, ACK, 902, 302, 0, 2040),
)
"""A request and its answer over TCP."""
RECORD = np.dtype(
    [
        ("s", "<u4"),
        ("us", "<u4"),
        ("captured", "<u4"),
        ("on_wire", "<u4"),
        ("version", "u1"),
        ("tos", "u1"),
        ("ip_len", ">u2"),
        ("ip_id", ">u2"),
        ("fragment", ">u2"),
        ("ttl", "u1"),
        ("proto", "u1"),
        ("checksum", ">u2"),
        ("source", ">u4"),
        ("target", ">u4"),
        ("source_port", ">u2"),
        ("target_port", ">u2"),
        ("seq", ">u4"),
        ("ack", ">u4"),
        ("flags", ">u2"),
        ("window", ">u2"),
        ("tcp_checksum", ">u2"),
        ("urgent", ">u2"),
    ]
)
"""A pcap record of an IPv4 packet with a TCP header and no option, cut after it."""
FIRST_USER, FIRST_SERVER, SERVERS = 0x0A42_0000, 0xC633_6401, 250
"""10.66.0.0 and on; 198.51.100.1 and on."""


def short_exchanges(
    target: Path, user: np.ndarray, begin_us: int = BEGIN_US, span_us: int = HOUR_US
) -> int:
    """Write a pcap with an EXCHANGE, begun in this span, for each of these users, int64[n] IPv4
    addresses, which may repeat; returns how many packets it has."""
    rng = np.random.default_rng(1)
    users = len(user)
    out = np.zeros((users, len(EXCHANGE)), RECORD)
    down, flags, seq, ack, payload, ms = np.array(EXCHANGE, np.int64).T
    server = FIRST_SERVER + rng.integers(0, SERVERS, users)
    ts = (begin_us + rng.integers(0, span_us, users))[:, None] + 1000 * ms
    out["s"], out["us"] = ts // 1_000_000, ts % 1_000_000
    out["captured"] = RECORD.itemsize - RECORD_HEADER
    out["on_wire"] = out["ip_len"] = out["captured"] + payload
    out["version"], out["ttl"], out["proto"] = 0x45, np.where(down, 55, 63), 6
    out["ip_id"] = rng.integers(1, 60_000, users)[:, None] + np.arange(len(EXCHANGE))
    out["source"] = np.where(down, server[:, None], user[:, None])
    out["target"] = np.where(down, user[:, None], server[:, None])
    port = rng.integers(20_000, 60_000, users)[:, None]
    out["source_port"] = np.where(down, 80, port)
    out["target_port"] = np.where(down, port, 80)
    start = rng.integers(0, 1 << 32, (2, users, 1))
    out["seq"] = (np.where(down, start[0], start[1]) + seq) % (1 << 32)
    acked = (np.where(down, start[1], start[0]) + ack) % (1 << 32)
    out["ack"] = np.where(flags == SYN, 0, acked)
    out["flags"], out["window"] = 0x5000 | flags, 17_520
    order = np.argsort(ts.ravel(), kind="stable")
    with target.open("wb") as f:
        f.write(pcap_header())
        f.write(out.ravel()[order].tobytes())
    return out.size


def pcap_header() -> bytes:
    """Returns the header of a pcap of raw IP packets, little-endian, in microseconds."""
    fields = np.array([framing.PCAP_MICRO, 2 | 4 << 16, 0, 0, 65535, 101], "<u4")
    return fields.tobytes()


def merged(sources: list[Path], target: Path) -> int:
    """Write the packets of these pcaps as one, in time order, all beginning at BEGIN_US; returns
    how many it has."""
    parts = [records(source) for source in sources]
    base = np.cumsum([0, *(len(data) for data, _ in parts)])
    data = np.concatenate([data for data, _ in parts])
    for (_, frames), begin in zip(parts, base, strict=False):
        frames["offset"] += begin
        frames["ts"] += BEGIN_US - frames["ts"].min()
    frames = np.concatenate([frames for _, frames in parts])
    frames = frames[np.argsort(frames["ts"], kind="stable")]
    head = frames["offset"].astype(np.int64) - RECORD_HEADER
    _put32(data, head, frames["ts"] // 1_000_000)
    _put32(data, head + 4, frames["ts"] % 1_000_000)
    size = frames["captured"].astype(np.int64) + RECORD_HEADER
    end = np.cumsum(size)
    shift = np.repeat(head - (end - size), size)
    with target.open("wb") as f:
        f.write(pcap_header())
        f.write(data[np.arange(end[-1]) + shift].data)
    return len(frames)


def _put32(data: np.ndarray, at: np.ndarray, values: np.ndarray) -> None:
    for k in range(4):
        data[at + k] = values >> 8 * k & 255


def mix(target: Path, packets: int, users: int) -> int:
    """Write a pcap with about `packets` of the shipped captures, the same of each, and `users` with
    short exchanges; returns how many packets it has."""
    with TemporaryDirectory(dir=target.parent) as name:
        folder = Path(name)
        sources = []
        for i, capture in enumerate(SHIPPED):
            sources.append(folder / f"{i}.pcap")
            repetitions = round(packets / len(SHIPPED) / len(records(CAPTURES / capture)[1]))
            tile(CAPTURES / capture, sources[-1], 1, max(1, repetitions), 1 + i * MOST_REPETITIONS)
        sources.append(folder / "short.pcap")
        short_exchanges(sources[-1], FIRST_USER + np.arange(users))
        return merged(sources, target)
