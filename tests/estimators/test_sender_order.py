"""The order in which a server heard and sent what Gi saw, and retransmissions that Gi never saw;
see `replies`.

A retransmission is a prime: d4' that Gi saw, (d4') that it did not.
"""

from dataclasses import replace

import pytest

from tests.helpers.packet_script import Packet
from tests.helpers.replies import (
    ANSWER_US,
    BEGIN,
    FIRST_ACK,
    MS,
    SECOND,
    TIMEOUT_US,
    causes_and_counts,
    duplicates,
    flight,
    transfer,
)
from tests.helpers.segments import RTT_US, acked, opened, sent

# ---- the order at the server -------------------------------------------------------------------


@pytest.mark.parametrize("after_ms", [-20, 20, 60, 90])
def test_cause_of_a_retransmission_ignores_acks_that_the_server_had_not_heard(after_ms):
    """
    Gi     | d1 ... d5                       d2'    d2 was only late on the access
    mobile |           a1 a1 a1 a1      a5          side: a5 passes Gi while d2' is in flight
    """
    lines = [*opened(), *flight(1, 5), acked(FIRST_ACK, 1), *duplicates(3, FIRST_ACK + MS)]
    at = FIRST_ACK + 3 * MS + ANSWER_US
    lines += [sent(at, 2), acked(at - after_ms * MS, 5), acked(at + RTT_US, 5)]
    assert causes_and_counts(sorted(lines, key=lambda p: p.us)) == (["fast"], 1, 0)


@pytest.mark.parametrize("after_ms", [-20, 20, 60, 90, 120])
def test_rto_retransmission_that_crosses_an_ack_has_cause_rto(after_ms):
    """
    Gi     | d1        d1'            d1''     with SACK: d1' was a probe
    mobile |                       a1
    """
    at = BEGIN + 2 * (RTT_US + ANSWER_US) + 200 * MS
    lines = [*opened(sack=True), sent(BEGIN, 1), sent(at, 1)]
    at += TIMEOUT_US
    lines += [sent(at, 1), acked(at - after_ms * MS, 1), acked(at + RTT_US, 1)]
    assert causes_and_counts(sorted(lines, key=lambda p: p.us)) == (["tlp", "rto"], 2, 1)


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
def test_segment_overtaken_on_the_internet_side_is_no_retransmission(late_ms):
    """Its ID is of its turn: 7 after 8."""
    lines = counted(overtaken(late_ms * MS), 1, 2, 3, 4, 5, 6, 8, 7, 9, 10)
    assert causes_and_counts(lines) == ([], 0, 0)


def test_later_ip_id_shows_a_retransmission_however_soon_it_comes():
    """d7 has an ID after d8's: (d7) was lost on the Internet side."""
    lines = counted(overtaken(690 * MS), 1, 2, 3, 4, 5, 6, 8, 9, 10, 11)
    causes, retransmissions, _ = causes_and_counts(lines)
    assert (len(causes), retransmissions) == (1, 1)


@pytest.mark.parametrize(("late_ms", "retransmissions"), [(40, 0), (690, 0), (3000, 1)])
def test_without_ids_a_segment_late_by_less_than_a_round_trip_was_overtaken(
    late_ms, retransmissions
):
    """A round trip of the server's is 700 ms."""
    causes, count, _ = causes_and_counts(overtaken(late_ms * MS))
    assert (len(causes), count) == (retransmissions, retransmissions)


# ---- retransmissions that Gi never saw ---------------------------------------------------------


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


def test_gap_in_the_ids_counts_a_retransmission_that_gi_never_saw():
    """8 is missing: d6', after an RTO expiry, was lost on the Internet side."""
    assert causes_and_counts(backed_off(1, 2, 3, 4, 5, 6, 7, 9)) == (["rto"], 2, 2)


def test_overtaken_retransmission_counts_once():
    """
    Gi     | d1 ... d5   d6 d7 d8      d6' d8' d7'     d7' has the ID before d8's
    mobile |  a1 ... a5                            a8
    """
    lines = [*opened(), *flight(1, 5), acked(FIRST_ACK, 5)]
    lines += flight(6, 8, FIRST_ACK + ANSWER_US)
    at = FIRST_ACK + ANSWER_US + TIMEOUT_US
    lines += [sent(at, 6), sent(at + MS, 8), sent(at + 2 * MS, 7), acked(at + RTT_US, 8)]
    causes, retransmissions, _ = causes_and_counts(counted(lines, *range(1, 10), 11, 10))
    assert (len(causes), retransmissions) == (3, 3)


def test_gaps_of_a_host_that_counts_all_its_packets_are_no_retransmissions():
    """The SYN ACK's ID is the one before d1's."""
    lines = backed_off(1, 2, 3, 4, 5, 6, 7, 9)
    lines[1] = replace(lines[1], id=FIRST)
    assert causes_and_counts(lines) == (["rto"], 1, 1)


def test_ids_without_a_gap_show_no_unseen_retransmission():
    causes, retransmissions, _ = causes_and_counts(backed_off(1, 2, 3, 4, 5, 6, 7, 8))
    assert (causes, retransmissions) == (["rto"], 1)


@pytest.mark.parametrize(
    "ids",
    [
        (-FIRST,) * 8,
        (7, 60000, 300, 21000, 5, 40000, 9000, 9002),
        (1, 101, 201, 301, 401, 501, 601, 603),
    ],
)
def test_ids_that_do_not_count_up_show_no_unseen_retransmission(ids):
    causes, retransmissions, _ = causes_and_counts(backed_off(*ids))
    assert (causes, retransmissions) == (["rto"], 1)


def test_ids_may_wrap():
    """65535 is followed by 0."""
    ids = [65530 - FIRST + k for k in (0, 1, 2, 3, 4, 5, 6, 8)]
    assert causes_and_counts(backed_off(*ids)) == (["rto"], 2, 2)


def test_new_segment_that_gi_never_saw_is_no_retransmission():
    """d7 and its ID are missing."""
    lines = [*transfer(5), *flight(6, 6, 7 * SECOND), *flight(8, 9, 7 * SECOND + 2 * MS)]
    lines = counted([*lines, acked(8 * SECOND, 9)], 1, 2, 3, 4, 5, 6, 8, 9)
    assert causes_and_counts(lines) == ([], 0, 0)


def test_ack_with_the_same_timestamp_is_heard_after_the_data_it_acknowledges():
    """A capture at the server, by a clock of 10 ms: what a packet answers stands before it."""
    lines = opened()
    lines[1] = lines[1].later(-100 * MS)  # no round trip between Gi and the server
    for n in range(1, 21):
        at = BEGIN + n // 4 * 10 * MS
        lines += [sent(at, n), acked(at, n)]
    assert causes_and_counts(lines) == ([], 0, 0)
