"""In which order a server heard and sent what Gi saw, and what of that Gi never saw; see `replies`.

A retransmission is a prime: d4' that Gi saw, (d4') that it did not.
"""

from dataclasses import replace

import pytest
from packet_script import Packet
from replies import (
    ANSWER_US,
    BEGIN,
    FIRST_ACK,
    MS,
    SECOND,
    TIMEOUT_US,
    did,
    duplicates,
    flight,
    transfer,
)
from segments import RTT_US, acked, opened, sent

# ---- the order at the server -------------------------------------------------------------------


@pytest.mark.parametrize("after_ms", [-20, 20, 60, 90])
def test_retransmission_that_left_before_an_ack_was_heard_is_classed_by_what_was_known(after_ms):
    """
    Gi     | d1 ... d5                       d2'    d2 was only late on the access side: a5 passes Gi when
    mobile |           a1 a1 a1 a1      a5          d2' is on its way
    """
    lines = [*opened(), *flight(1, 5), acked(FIRST_ACK, 1), *duplicates(3, FIRST_ACK + MS)]
    at = FIRST_ACK + 3 * MS + ANSWER_US
    lines += [sent(at, 2), acked(at - after_ms * MS, 5), acked(at + RTT_US, 5)]
    assert did(sorted(lines, key=lambda p: p.us)) == (["fast"], 1, 0)


@pytest.mark.parametrize("after_ms", [-20, 20, 60, 90, 120])
def test_timeout_that_an_ack_crosses_is_a_timeout(after_ms):
    """
    Gi     | d1        d1'            d1''     with SACK: d1' was a probe
    mobile |                       a1
    """
    at = BEGIN + 2 * (RTT_US + ANSWER_US) + 200 * MS
    lines = [*opened(sack=True), sent(BEGIN, 1), sent(at, 1)]
    at += TIMEOUT_US
    lines += [sent(at, 1), acked(at - after_ms * MS, 1), acked(at + RTT_US, 1)]
    assert did(sorted(lines, key=lambda p: p.us)) == (["tlp", "rto"], 2, 1)


FIRST = 5000
"""Where a connection's counter begins."""


def counted(lines: list[Packet], *ids: int) -> list[Packet]:
    """The data have these IP IDs, and FIRST; the SYN ACK has 0."""
    left = iter(ids)
    return [
        replace(p, id=(FIRST + next(left)) % 65536) if p.way == "down" and p.data else p
        for p in lines
    ]


def overtaken(late_us: int) -> list[Packet]:
    """
    Gi     | d1 ... d5 d6 d8      d7      d9 d10
    mobile |  a1 ... a5       a6      a8         a10
    """
    lines = transfer(5)
    at = BEGIN + 5 * SECOND
    lines += [sent(at, 6), sent(at + MS, 8), sent(at + late_us, 7)]
    at += max(late_us, RTT_US) + RTT_US
    return [*lines, acked(at, 8), *flight(9, 10, at + ANSWER_US), acked(at + SECOND, 10)]


@pytest.mark.parametrize("late_ms", [40, 690])
def test_segment_overtaken_before_gi_is_no_retransmission(late_ms):
    """Its ID is of its turn: 7 after 8."""
    lines = counted(overtaken(late_ms * MS), 1, 2, 3, 4, 5, 6, 8, 7, 9, 10)
    assert did(lines) == ([], 0, 0)


def test_id_of_later_tells_a_retransmission_however_soon_it_comes():
    """d7 has an ID after d8's: (d7) was lost on the Internet side."""
    lines = counted(overtaken(690 * MS), 1, 2, 3, 4, 5, 6, 8, 9, 10, 11)
    causes, retransmissions, _ = did(lines)
    assert (len(causes), retransmissions) == (1, 1)


@pytest.mark.parametrize(("late_ms", "retransmissions"), [(40, 0), (690, 0), (3000, 1)])
def test_without_ids_what_comes_sooner_than_a_round_trip_was_overtaken(late_ms, retransmissions):
    """A round trip of the server's is 700 ms."""
    causes, count, _ = did(overtaken(late_ms * MS))
    assert (len(causes), count) == (retransmissions, retransmissions)


# ---- retransmissions that Gi never saw -----------------------------------------------------------------


def backed_off(*ids: int) -> list[Packet]:
    """
    Gi     | d1 ... d5   d6 d7      (d6')           d6''     2.1 s and 4.2 s (RFC 6298, 5.5)
    mobile |  a1 ... a5                                  a7
    """
    lines = [*opened(), *flight(1, 5), acked(FIRST_ACK, 5)]
    at = FIRST_ACK + ANSWER_US
    lines += flight(6, 7, at)
    at += 3 * TIMEOUT_US
    return counted([*lines, sent(at, 6), acked(at + RTT_US, 7)], *ids)


def test_retransmission_that_gi_never_saw_counts_by_the_gap_in_the_ids():
    """8 is missing: d6' was lost on the Internet side, and the timer went off for it."""
    assert did(backed_off(1, 2, 3, 4, 5, 6, 7, 9)) == (["rto"], 2, 2)


def test_retransmission_that_was_overtaken_counts_once():
    """
    Gi     | d1 ... d5   d6 d7 d8      d6' d8' d7'     d7' has the ID before d8's
    mobile |  a1 ... a5                            a8
    """
    lines = [*opened(), *flight(1, 5), acked(FIRST_ACK, 5)]
    lines += flight(6, 8, FIRST_ACK + ANSWER_US)
    at = FIRST_ACK + ANSWER_US + TIMEOUT_US
    lines += [sent(at, 6), sent(at + MS, 8), sent(at + 2 * MS, 7), acked(at + RTT_US, 8)]
    causes, retransmissions, _ = did(counted(lines, *range(1, 10), 11, 10))
    assert (len(causes), retransmissions) == (3, 3)


def test_host_that_counts_all_its_packets_leaves_gaps():
    """The SYN ACK's ID is the one before d1's."""
    lines = backed_off(1, 2, 3, 4, 5, 6, 7, 9)
    lines[1] = replace(lines[1], id=FIRST)
    assert did(lines) == (["rto"], 1, 1)


def test_ids_without_a_gap_tell_of_none():
    causes, retransmissions, _ = did(backed_off(1, 2, 3, 4, 5, 6, 7, 8))
    assert (causes, retransmissions) == (["rto"], 1)


@pytest.mark.parametrize(
    "ids",
    [
        (-FIRST,) * 8,
        (7, 60000, 300, 21000, 5, 40000, 9000, 9002),
        (1, 101, 201, 301, 401, 501, 601, 603),
    ],
)
def test_ids_that_do_not_count_up_tell_nothing(ids):
    causes, retransmissions, _ = did(backed_off(*ids))
    assert (causes, retransmissions) == (["rto"], 1)


def test_ids_wrap():
    """65535 is followed by 0."""
    ids = [65530 - FIRST + k for k in (0, 1, 2, 3, 4, 5, 6, 8)]
    assert did(backed_off(*ids)) == (["rto"], 2, 2)


def test_new_segment_that_gi_never_saw_is_no_retransmission():
    """d7 and its ID are missing."""
    lines = [*transfer(5), *flight(6, 6, 7 * SECOND), *flight(8, 9, 7 * SECOND + 2 * MS)]
    lines = counted([*lines, acked(8 * SECOND, 9)], 1, 2, 3, 4, 5, 6, 8, 9)
    assert did(lines) == ([], 0, 0)


def test_ack_of_the_same_time_is_heard_after_what_it_acknowledges():
    """A capture at the server, by a clock of 10 ms: what a packet answers stands before it."""
    lines = opened()
    lines[1] = lines[1].later(-100 * MS)  # no round trip between Gi and the server
    for n in range(1, 21):
        at = BEGIN + n // 4 * 10 * MS
        lines += [sent(at, n), acked(at, n)]
    assert did(lines) == ([], 0, 0)
