"""Transfers in whole segments, for exchanges about losses.

Segments are of 1000 bytes: d1 is 500-1499, d2 is 1500-2499, ... The RTT on the access side is 600
ms, on the Internet side 100 ms, and the link takes 100 ms for a segment.
"""

from tests.helpers.packet_script import Packet, tables

ACK = frozenset({"ACK"})
DATA = 1000
RTT_US, SLOT_US = 600_000, 100_000


def opened(sack: bool = False) -> list[Packet]:
    """A handshake and a request."""
    return [
        Packet(0, "up", frozenset({"SYN"}), seq=99, sackok=sack),
        Packet(100_000, "down", frozenset({"SYN", "ACK"}), seq=499, ack=100, sackok=sack),
        Packet(700_000, "up", ACK, seq=100, ack=500),
        Packet(700_001, "up", ACK, seq=100, ack=500, data=200),
    ]


def sent(at_us: int, number: int) -> Packet:
    """Segment dN passes Gi."""
    return Packet(at_us, "down", ACK, seq=500 + DATA * (number - 1), ack=300, data=DATA)


def acked(at_us: int, upto: int, *blocks: tuple[int, int]) -> Packet:
    """The mobile has all segments up to and including `upto`; blocks of others (from, to)."""
    sack = ",".join(f"{500 + DATA * (a - 1)}-{500 + DATA * b}" for a, b in blocks)
    return Packet(at_us, "up", ACK, seq=300, ack=500 + DATA * upto, sack=sack)


def started(sack: bool = False, first: int = 3) -> list[Packet]:
    """d1 ... d`first` sent one at a time and acknowledged."""
    lines = opened(sack)
    for i in range(first):
        at = 900_000 + i * 1_000_000
        lines += [sent(at, i + 1), acked(at + RTT_US + SLOT_US, i + 1)]
    return lines


def user_seen_at(at_us: int) -> list[Packet]:
    """A packet of the user on another connection: the capture still observes the user."""
    return [Packet(at_us, "up", frozenset({"SYN"}), seq=7, port=2000)]


def lost(lines: list[Packet], side: str = "access") -> list[tuple[int | None, str]]:
    """(place in the exchange, evidence) of each loss; places count from 0 in the script's order."""
    rows = tables(lines)["losses"]
    return [(r["frame"], r["evidence"]) for r in rows if r["side"] == side]
