"""Retransmissions of what the mobile dropped for its old timestamp (PAWS) were needed, though
nothing was lost: on short exchanges of segments, d4' being d4 retransmitted.
"""

from dataclasses import replace

import pytest

from tests.helpers.packet_script import Packet, tables
from tests.helpers.replies import MS, stamped
from tests.helpers.segments import acked, sent, started

T = 5_000_000


def at(ms: int, number: int, tsval: int) -> Packet:
    return replace(sent(T + ms * MS, number), tsval=tsval)


def echo(ms: int, upto: int, tsecr: int, *blocks: tuple[int, int]) -> Packet:
    return replace(acked(T + ms * MS, upto, *blocks), tsecr=tsecr)


def needed_and_lost(lines: list[Packet], sack: bool = False) -> tuple[dict[int, bool | None], int]:
    """(`needed` of each retransmission after the start, by place in the exchange; number of packets
    lost on the access side)."""
    before = stamped(started(sack))
    lines = [replace(p, tsval=p.us // MS) if p.tsval is None else p for p in lines]
    rows = tables([*before, *lines])
    (flow,) = rows["flows"]
    retransmissions = {r["frame"] - len(before): r["needed"] for r in rows["retransmissions"]}
    return retransmissions, flow["lost_access"]


@pytest.mark.parametrize(
    ("older_by", "needed"), [(10, True), (1, None)], ids=["", "by a tick: Linux takes it"]
)
def test_retransmission_of_an_overtaken_segment_dropped_by_paws_was_needed(older_by, needed):
    """d6 was overtaken by d4' on the Internet side; the mobile drops it and acknowledges d5 once
    more.

    Gi     | d4 (lost)  d5       d4' d6 d7           d6'
    mobile |               a3              a5 a5 a5      a7
    """
    lines = [at(0, 4, 5_000), at(1, 5, 5_001), echo(700, 3, 3_000)]
    lines += [at(1000, 4, 6_000), at(1001, 6, 6_000 - older_by), at(1002, 7, 6_002)]
    lines += [echo(1700 + 100 * k, 5, 6_000) for k in range(3)]
    lines += [at(2500, 6, 7_500), echo(3200, 7, 7_500)]
    assert needed_and_lost(lines) == ({3: True, 9: needed}, 1)


def test_retransmission_above_a_hole_of_a_segment_dropped_by_paws_was_needed():
    """d8 was overtaken by d4', which a5 echoes; d6 is still missing then.

    Gi     | d4 (lost)  d5 d6 (lost) d7    d4' d8          d6' d8'
    mobile |                        a3 a3      a5  a5              a7 a8
    """
    lines = [at(0, 4, 5_000), at(1, 5, 5_001), at(2, 6, 5_002), at(3, 7, 5_003)]
    lines += [echo(700, 3, 3_000, (5, 5)), echo(800, 3, 3_000, (7, 7), (5, 5))]
    lines += [at(1000, 4, 6_000), at(1050, 8, 5_900)]
    lines += [echo(1700, 5, 6_000, (7, 7)), echo(1800, 5, 6_000, (7, 7))]
    lines += [at(2500, 6, 7_500), at(2501, 8, 7_501), echo(3200, 7, 7_500), echo(3300, 8, 7_501)]
    assert needed_and_lost(lines, sack=True) == ({6: True, 10: True, 11: True}, 2)


def test_retransmission_of_an_overtaken_segment_that_paws_accepts_was_spurious():
    """d6 comes late, but nothing newer was in order before it: a6 shows that it was accepted.

    Gi     | d5 d6 d4        d6'
    mobile |      a3 a3 a6       a6
    """
    lines = [at(0, 5, 5_001), at(1, 6, 5_000), at(2, 4, 4_999)]
    lines += [echo(700, 3, 3_000), echo(800, 3, 3_000), echo(900, 6, 4_999)]
    lines += [at(2500, 6, 7_500), echo(3200, 6, 4_999)]
    assert needed_and_lost(lines)[0][6] is False
