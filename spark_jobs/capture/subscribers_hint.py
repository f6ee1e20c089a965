"""A hint for networks files with a wrong prefix: the prefix that most SYNs of a capture come from.

Mobiles open most connections, so their addresses send most SYNs. The hint is printed, and stored
nowhere. It never has more of an address than a network that is announced to the Internet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path

import numpy as np

from spark_jobs.capture.addresses import subscriber_prefixes
from spark_jobs.capture.decode import ACK, HAS_TCP, SYN
from spark_jobs.capture.reader import ReadStats, read_capture

FEW = 0.01
"""Share of the packets below which a network's subscribers have so few that the hint is given."""
MOST = 0.9
"""Share of the SYNs that the prefix should cover."""
PACKETS_READ = 1 << 18
"""Number of packets at the beginning of the capture in which SYNs are counted."""
MAX_PREFIX = {4: 32, 6: 128}
LENGTHS = {4: (24, 8, 16), 6: (48, 16, 32)}
"""By IP version: longest and shortest prefix, and the length if none of these covers MOST."""


def subscribers_hint(
    path: Path, network: str, packets: int, skipped: Mapping[str, int]
) -> list[str]:
    """Return a line with the likely prefix if few packets of a capture are of subscribers.

    packets: number of packets of subscribers. skipped: number of others, by reason.
    """
    others = skipped.get("not_subscriber", 0)
    if not others or packets > FEW * (packets + others):
        return []
    found = _likely_prefix(_syn_sources(path))
    if found is None:
        return []
    prefix, share = found
    return [
        f"{path}: {100 * share:.0f} % of its SYNs come from {prefix}: is this prefix missing in "
        f"the subscribers of {network}?"
    ]


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
