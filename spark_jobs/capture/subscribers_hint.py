"""Hints for networks files with wrong prefixes: the prefix that most SYNs of a capture come from.

Mobiles open most connections, so their addresses send most SYNs. A hint is printed, and stored
nowhere. It never has more of an address than a network that is announced to the Internet.
"""

from __future__ import annotations

from collections import Counter
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path

import numpy as np
import pyarrow as pa

from spark_jobs.capture.addresses import subscriber_prefixes
from spark_jobs.capture.decode import ACK, SYN
from spark_jobs.capture.reader import ReadStats, read_capture
from spark_jobs.capture.record import HAS_TCP

FEW = 0.25
"""Share of the packets below which a network's subscribers have so few that the hint is given."""
MIN_SYNS = 3
"""Fewest SYNs that show which side opens the connections."""
MOST_WITH_TWO_ROWS = 1.5
"""Rows for each packet above which the servers are subscribers, too."""
MOST = 0.9
"""Share of the SYNs that the prefix should cover."""
PACKETS_READ = 1 << 18
"""Number of packets at the beginning of the capture in which SYNs are counted."""
MAX_PREFIX = {4: 32, 6: 128}
LENGTHS = {4: (24, 8, 16), 6: (48, 16, 32)}
"""By IP version: longest and shortest prefix, and the length if none of these covers MOST."""


def subscribers_hint(
    path: Path, network: str, rows: pa.Table | None, packets: int, stats: ReadStats
) -> list[str]:
    """Return a line about the prefixes of a network's subscribers if a capture contradicts them.

    rows: the first rows of packets; None: there are none. packets: number of all rows, of which a
    packet between two subscribers has two.
    """
    found = _contradiction(network, rows, packets, stats)
    likely = _likely_prefix(_syn_sources(path)) if found else None
    if likely is None:
        return [f"{path}: {found}"] if found and packets else []
    prefix, share = likely
    return [
        f"{path}: {found}; {100 * share:.0f} % of its SYNs come from {prefix}: is this the prefix "
        "of the mobiles?"
    ]


def _contradiction(
    network: str, rows: pa.Table | None, packets: int, stats: ReadStats
) -> str | None:
    """Return in words what contradicts the prefixes, or None."""
    others = stats.skipped["not_subscriber"]
    if others and packets < FEW * (packets + others):
        share = 100 * others / (packets + others)
        return f"{share:.0f} % of its IP packets are of no subscriber of {network}"
    if rows is None:
        return None
    if packets > MOST_WITH_TWO_ROWS * stats.frames:
        return f"both ends of the packets are subscribers of {network}, servers, too"
    flags = rows["tcp_flags"].fill_null(0).to_numpy()
    is_syn = flags & (SYN | ACK) == SYN
    if is_syn.sum() >= MIN_SYNS and rows["downlink"].to_numpy()[is_syn].all():
        return f"all SYNs go to the subscribers of {network}, as to servers"
    return None


def _syn_sources(path: Path) -> Counter[str]:
    """Return the number of SYNs by source, in the first packets of a capture."""
    everyone = subscriber_prefixes([IPv6Network("::/0")])
    batch = next(read_capture(path, everyone, ReadStats(), PACKETS_READ), None)
    if batch is None:
        return Counter()
    rows = batch.rows[~batch.rows["downlink"] & (batch.rows["has"] & HAS_TCP > 0)]
    sources = rows["user"][rows["tcp_flags"] & (SYN | ACK) == SYN]
    numbers, counts = np.unique(sources, return_counts=True)
    return Counter(dict(zip(batch.addresses.texts(numbers), counts.tolist(), strict=True)))


def _likely_prefix(sources: Counter[str]) -> tuple[IPv4Network | IPv6Network, float] | None:
    """Return the longest prefix that covers most SYNs, and its share of them."""
    addresses = [(ip_address(text), count) for text, count in sources.items()]
    versions: Counter[int] = Counter()
    for address, count in addresses:
        versions[address.version] += count
    if not versions:
        return None
    ((version, _),) = versions.most_common(1)
    longest, shortest, usual = LENGTHS[version]
    numbers = [(int(address), count) for address, count in addresses if address.version == version]

    def most_common(length: int) -> tuple[IPv4Network | IPv6Network, float]:
        free_bits = MAX_PREFIX[version] - length
        heads: Counter[int] = Counter()
        for number, count in numbers:
            heads[number >> free_bits] += count
        ((head, count),) = heads.most_common(1)
        packed = (head << free_bits).to_bytes(MAX_PREFIX[version] // 8, "big")
        return ip_network((packed, length)), count / versions.total()

    found = map(most_common, range(longest, shortest - 1, -1))
    return next((item for item in found if item[1] >= MOST), most_common(usual))
