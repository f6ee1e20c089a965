"""Packs a simulation's captures as `tests.programs.accuracy` reads them: gi.pcap.zst (snap length
120), frames_lost.csv.zst, losses_unseen.csv.zst, users.csv.zst (rates of links) and
sender.csv.zst."""

import csv
import io
import struct
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import zstandard

SNAP = 120
UNDECIDED_S = 3.0
"""What was sent less than so long before the end may still be in flight."""
START = 1_401_703_200
"""2014-06-02 10:00 UTC."""
PPP, RAW = 9, 101
UE_NET = 7
"""ns-3's mobiles have addresses in 7.0.0.0/8."""


@dataclass(frozen=True)
class Seen:
    """An IPv4 packet in a capture."""

    s: float
    ip: bytes
    length: int

    @property
    def is_tcp(self) -> bool:
        return self.ip[0] >> 4 == 4 and self.ip[9] == 6

    @property
    def downlink(self) -> bool:
        return self.is_tcp and self.ip[16] == UE_NET

    @property
    def datagram(self) -> bytes | None:
        """Identification and addresses of a datagram in fragments."""
        is_fragment = self.ip[6] & 0x3F or self.ip[7]
        return self.ip[4:6] + self.ip[12:20] if is_fragment else None

    @property
    def key(self) -> bytes:
        """Identification, addresses, ports, sequence number."""
        at = (self.ip[0] & 15) * 4
        return self.ip[4:6] + self.ip[12:20] + self.ip[at : at + 8]


def packets(path: Path) -> Iterator[Seen]:
    """Returns the packets of one of ns-3's captures."""
    data = path.read_bytes()
    (link,) = struct.unpack_from("<I", data, 20)
    skip = 2 if link == PPP else 0
    at = 24
    while at + 16 <= len(data):
        s, us, kept, length = struct.unpack_from("<IIII", data, at)
        yield Seen(s + us / 1e6, data[at + 16 + skip : at + 16 + kept], length - skip)
        at += 16 + kept


def arrivals(seen: Iterable[Seen]) -> dict[bytes, deque[float]]:
    """Returns when each packet was seen."""
    out: dict[bytes, deque[float]] = defaultdict(deque)
    for packet in seen:
        if packet.downlink:
            out[packet.key].append(packet.s)
    return out


def took(arrived: dict[bytes, deque[float]], packet: Seen) -> bool:
    """Returns true if a packet arrived after all; takes the arrival away."""
    times = arrived[packet.key]
    while times:
        if times.popleft() >= packet.s:
            return True
    return False


def write(folder: Path, captures: Path, rates: dict[str, int]) -> None:
    """Writes the capture at Gi and what became of its packets, from all of ns-3's captures, what
    the senders said of themselves, and the rate of each mobile's link (bit/s), if it has one."""
    gi = list(packets(captures / "gi.pcap"))
    at_mobiles = arrivals(p for path in captures.glob("mobile-*-i1.pcap") for p in packets(path))
    at_gi = arrivals(gi)
    end = gi[-1].s
    folder.mkdir(parents=True, exist_ok=True)
    pcap = io.BytesIO()
    pcap.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, SNAP, RAW))
    lost: dict[int, Seen] = {}
    fragments = defaultdict(list)
    for frame, packet in enumerate(gi, 1):
        s, us = divmod(round((START + packet.s) * 1e6), 1_000_000)
        kept = packet.ip[:SNAP]
        pcap.write(struct.pack("<IIII", s, us, len(kept), packet.length) + kept)
        if packet.downlink:
            if packet.datagram:
                fragments[packet.datagram].append(frame)
            if not took(at_mobiles, packet):
                lost[frame] = packet
    for packet in list(lost.values()):  # with a fragment the whole datagram is lost
        lost |= dict.fromkeys(fragments[packet.datagram] if packet.datagram else (), packet)
    fates: list[tuple[object, ...]] = [("frame", "fate")]
    for frame, packet in sorted(lost.items(), key=itemgetter(0)):
        fates.append((frame, "radio" if packet.s < end - UNDECIDED_S else "queued"))
    unseen: list[tuple[object, ...]] = [
        ("where", "direction", "ts", "ip_len", "src", "sport", "dst", "dport", "seq")
    ]
    for packet in packets(captures / "server.pcap"):
        if packet.downlink and packet.s < end - 1 and not took(at_gi, packet):
            at = (packet.ip[0] & 15) * 4
            source, target, number = struct.unpack_from(">HHI", packet.ip, at)
            ends = ".".join(map(str, packet.ip[12:16])), ".".join(map(str, packet.ip[16:20]))
            ts = f"{START + packet.s:.6f}"
            row = ("internet", "down", ts, packet.length, ends[0], source, ends[1], target, number)
            unseen.append(row)
    _compressed(folder / "gi.pcap.zst", pcap.getvalue())
    _csv(folder / "frames_lost.csv.zst", fates)
    _csv(folder / "losses_unseen.csv.zst", unseen)
    _csv(folder / "users.csv.zst", [("user", "rate_bps"), *rates.items()])
    _compressed(folder / "sender.csv.zst", (captures / "sender.csv").read_bytes())


def _csv(path: Path, rows: Iterable[tuple[object, ...]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    _compressed(path, text.getvalue().encode())


def _compressed(path: Path, data: bytes) -> None:
    path.write_bytes(zstandard.ZstdCompressor(level=19).compress(data))
