"""Two networks whose subscribers talk to each other."""

from functools import cache

from conftest import NOON
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6

from tests.helpers.capture_files import Frame

FILE = """
[[network]]
name = "aa"
country = "AA"
access = "lte"
timezone = "UTC"
subscribers = ["10.64.0.0/14", "2001:db8:a::/48"]
[network.quality]
one_way_share = 1
without_syn_share = 1
peak_flows = 0

[[network]]
name = "bb"
country = "BB"
access = "lte"
timezone = "UTC"
subscribers = ["203.0.113.0/24", "2001:db8:b::/48"]
nat64 = ["2001:db8:46::/96", "2001:db8:4600::/40"]
[network.quality]
one_way_share = 1
without_syn_share = 1
peak_flows = 0
"""


A4, A6, B4, B6 = "10.65.7.9", "2001:db8:a:91::7a5c", "203.0.113.77", "2001:db8:b:84::6bd3"


SERVER4, SERVER6 = "198.51.100.7", "2001:db8:ffff::80"


def frames(user: str, server: str, port: int, start_s: float = NOON) -> list[Frame]:
    """Return a connection: its set-up, a request and its answer."""
    return [
        Frame(data[:at] + port.to_bytes(2) + data[at + 2 :], int((start_s + 0.05 * i) * 1e6))
        for i, (data, at) in enumerate(packets(user, server))
    ]


@cache
def packets(user: str, server: str) -> list[tuple[bytes, int]]:
    """Return a connection's packets, each with the place of the user's port, which is 0."""
    ip, header = (IPv6, 40) if ":" in user else (IP, 20)
    steps = [
        ("up", "S", 99, 0, 0), ("down", "SA", 499, 100, 0), ("up", "A", 100, 500, 0),
        ("up", "PA", 100, 500, 50), ("down", "PA", 500, 150, 900), ("up", "A", 150, 1400, 0),
        ("up", "FA", 150, 1400, 0), ("down", "FA", 1400, 151, 0), ("up", "A", 151, 1401, 0),
    ]  # fmt: skip
    found = []
    for way, flags, seq, ack, data in steps:
        (src, sport), (dst, dport) = [(user, 0), (server, 80)][:: 1 if way == "up" else -1]
        packet = ip(src=src, dst=dst) / TCP(sport=sport, dport=dport, flags=flags, seq=seq, ack=ack)
        found.append((bytes(packet / bytes(data)), header + 2 * (way == "down")))
    return found
