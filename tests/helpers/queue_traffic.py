"""Packets of a queue."""

from tests.helpers.packet_script import Packet
from tests.helpers.segments import RTT_US, SLOT_US, acked, opened, sent

ROOM, BURST, ROUNDS = 5, 8, 4


PACED = 40


def paced() -> list[Packet]:
    """A handshake, a request and a flight that keeps two segments waiting: which shows the
    link's pace."""
    lines = opened()
    for i in range(PACED):
        lines.append(sent(1_000_000 + SLOT_US * max(i - 2, 0) + i, i + 1))
        lines.append(acked(1_000_000 + RTT_US + SLOT_US * (i + 1), i + 1))
    return lines


def rounds(room: int) -> tuple[list[Packet], int, int]:
    """Bursts of which the link's queue takes so many segments and drops the others, which are
    retransmitted after an RTO expiry. Returns the lines, when the next burst is due and its first
    segment.

    Gi     | d1 ... d5 d6 d7 d8                        d6' d7' d8'
    mobile |                   a1 a2 a3 a4 a5                      a6 a7 a8
    """
    lines, at, number = paced(), 12_000_000, PACED + 1
    for _ in range(ROUNDS):
        for wanted in (range(number, number + BURST), range(number + room, number + BURST)):
            lines += [sent(at + 1000 * i, n) for i, n in enumerate(wanted)]
            taken = list(wanted)[:room]
            lines += [acked(at + RTT_US + SLOT_US * (i + 1), n) for i, n in enumerate(taken)]
            at += 5_000_000
        number += BURST
    return lines, at + 15_000_000, number
