"""Losses on the Internet side that only the sender's behaviour shows, on short exchanges; segments
as in test_loss.

A retransmission is a prime: d4' that Gi saw, (d4') that it did not.
"""

from dataclasses import replace

import pytest

from tests.helpers.packet_script import Packet, tables
from tests.helpers.segments import (
    ACK,
    DATA,
    RTT_US,
    SLOT_US,
    acked,
    lost,
    sent,
    started,
    user_seen_at,
)

T = 5_000_000
SECOND = 1_000_000
FIN = frozenset({"FIN", "ACK"})


def evidence(lines: list[Packet]) -> list[str]:
    return [kind for _, kind in lost([*lines, *user_seen_at(90 * SECOND)], "internet")]


def without_data(at_us: int, number: int) -> Packet:
    """The server acknowledges something; what it sends next is segment dN."""
    return Packet(at_us, "down", ACK, seq=500 + DATA * (number - 1), ack=300)


def flight(first: int, last: int, at_us: int = T) -> list[Packet]:
    return [sent(at_us + 1000 * (n - first), n) for n in range(first, last + 1)]


def duplicates(count: int, sack: bool) -> list[Packet]:
    """The mobile lacks d4; d5, d6, ... came one after the other."""
    first = T + RTT_US + SLOT_US
    return [
        acked(first + SLOT_US * n, 3, *([(5, 4 + n)] if sack else [])) for n in range(1, count + 1)
    ]


@pytest.mark.parametrize(("retransmitted_us", "kinds"), [(3 * SECOND, ["hole"]), (40_000, [])])
def test_sequence_number_of_a_packet_without_data_shows_a_hole(retransmitted_us, kinds):
    """
    Gi     | d4 (d5) ack    d5'       ack: its number is d6's. Or d5 was overtaken: 40 ms later
    """
    lines = [
        *started(),
        sent(T, 4),
        without_data(T + 50_000, 6),
        sent(T + 50_000 + retransmitted_us, 5),
    ]
    assert evidence([*lines, acked(T + 5 * SECOND, 5)]) == kinds


def test_lost_fin_is_no_lost_data():
    end = replace(without_data(T + 5 * SECOND, 5), flags=FIN)
    past = replace(without_data(T + SECOND, 5), seq=end.seq + 1)
    done = replace(acked(T + 6 * SECOND, 4), ack=end.seq + 1)
    assert evidence([*started(), sent(T, 4), past, end, done]) == []


@pytest.mark.parametrize("last", [6, 7])
@pytest.mark.parametrize(("later_us", "kinds"), [(8 * SECOND, ["skipped"]), (40_000, [])])
def test_retransmission_skipped_after_an_rto_expiry_was_lost(later_us, kinds, last):
    """
    Gi     | d4 d5 d6 d7       d4'    (d5') d6'      d5'     all was lost on the access
    mobile |                       a4                        side; no SACK. Or d6' overtook d5'
    """
    lines = [*started(), *flight(4, last), sent(T + 6 * SECOND, 4)]
    lines += [acked(T + 6_700_000, 4), sent(T + 6_800_000, 6)]
    lines += [sent(T + 6_800_000 + later_us, 5), acked(T + 16 * SECOND, last)]
    assert evidence(lines) == kinds


def sack_recovery(*retransmissions: Packet) -> list[Packet]:
    """d4 and d6 of d4 ... d10 were lost on the access side; what the server
    retransmits; all is acknowledged."""
    lines = [*started(sack=True), *flight(4, 10), acked(T + 800_000, 3, (5, 5))]
    lines += [acked(T + 800_000 + SLOT_US * n, 3, (7, 6 + n), (5, 5)) for n in range(1, 5)]
    return [*lines, *retransmissions, acked(T + 30 * SECOND, 10)]


def test_retransmission_skipped_in_sack_recovery_was_lost():
    """(d4') d6' ... d4': d5 between them is reported, not lost."""
    retransmissions = sent(T + 1_250_000, 6), sent(T + 6 * SECOND, 4)
    assert evidence(sack_recovery(*retransmissions)) == ["skipped"]


def test_sender_that_discards_sack_blocks_after_an_rto_expiry_skips_nothing():
    """d4' d6' ... d4' d5' d6': RFC 2018, 8."""
    retransmissions = sent(T + 1_250_000, 4), sent(T + 1_260_000, 6)
    retransmissions += tuple(flight(4, 6, T + 9 * SECOND))
    assert evidence(sack_recovery(*retransmissions)) == []


def test_loss_probe_of_the_tail_skips_nothing():
    """d7' only asks for a report (RFC 8985, 7.3); d4 is retransmitted for the first time after
    it."""
    lines = [*started(sack=True), *flight(4, 7), sent(T + 2 * SECOND, 7)]
    lines += [acked(T + 2_700_000, 3, (7, 7)), *flight(4, 6, T + 4 * SECOND)]
    assert evidence([*lines, acked(T + 6 * SECOND, 7)]) == []


@pytest.mark.parametrize("sack", [False, True])
@pytest.mark.parametrize(
    ("last", "retransmitted_us", "kinds"),
    [(8, 6 * SECOND, ["timeout"]), (8, 1_250_000, []), (12, 6 * SECOND, [])],
)
def test_fast_retransmission_that_never_passed_gi_was_lost(sack, last, retransmitted_us, kinds):
    """
    Gi     | d4 d5 d6 d7 d8               (d4')         d4'    Or d4' came at once; or there is
    mobile |                a3 a3 a3 a3                     a8  more in flight, up to d12
    """
    lines = [*started(sack), *flight(4, last), *duplicates(4, sack)]
    assert evidence([*lines, sent(T + retransmitted_us, 4), acked(T + 7 * SECOND, last)]) == kinds


@pytest.mark.parametrize(("answer_us", "kinds"), [(7 * SECOND, []), (100_000, ["timeout"])])
def test_ack_calls_for_no_retransmission_where_the_sender_waits_for_each_rto_expiry(
    answer_us, kinds
):
    """d4, d6 and d7 of d4 ... d8 were lost on the access side. The server answers a5, which
    acknowledges d4' by its echo, at the next RTO expiry, or at once; d7' comes at the next RTO
    expiry.

    Gi     | d4 d5 d6 d7 d8       d4'       d6'       d7'
    mobile |                a3 a3     a5        a6        a8
    """
    first = T + 6 * SECOND
    second = first + 700_000 + answer_us
    third = second + 700_000 + 7 * SECOND
    lines = [*started(sack=True), *flight(4, 8), acked(T + 800_000, 3, (5, 5))]
    lines.append(acked(T + 900_000, 3, (8, 8), (5, 5)))
    lines += [sent(first, 4), acked(first + 700_000, 5, (8, 8))]
    lines += [sent(second, 6), acked(second + 700_000, 6, (8, 8))]
    lines += [sent(third, 7), acked(third + 700_000, 8)]
    stamp, newest = [], 1
    for p in lines:
        stamp.append(replace(p, tsval=p.us // 1000 + 1, tsecr=newest))
        newest = stamp[-1].tsval if p.way == "down" and p.data else newest
    assert evidence(stamp) == kinds


def test_d_sacks_call_for_no_fast_retransmission():
    """The mobile got d1 five times; d4 is late, with d5 in flight."""
    lines = [*started(sack=True), *flight(4, 5)]
    lines += [acked(T + 800_000 + SLOT_US * n, 3, (1, 1)) for n in range(5)]
    assert evidence([*lines, sent(T + 6 * SECOND, 4), acked(T + 7 * SECOND, 5)]) == []


def test_late_retransmission_is_no_loss_where_the_handshake_was_not_seen():
    """The RTT on the Internet side is not known."""
    lines = [*started()[4:], *flight(4, 8), *duplicates(4, False)]
    assert evidence([*lines, sent(T + 6 * SECOND, 4), acked(T + 7 * SECOND, 8)]) == []


def after_a_timeout(retransmitted_us: int, *dup_acks: Packet, **acknowledged: int) -> list[Packet]:
    """
    Gi     | d4 d5 d6       d4'    (d5')         d5'      d4 and d5 were lost on the access side
    mobile |                    a4                   a6
    """
    timestamps = {"tsval": 1, "tsecr": 1} if acknowledged else {}
    lines = [*started(), *flight(4, 6), *dup_acks, sent(T + 6 * SECOND, 4)]
    lines += [
        acked(T + 6_800_000, 4),
        sent(T + 6_800_000 + retransmitted_us, 5),
        acked(T + 18 * SECOND, 6),
    ]
    stamped = [
        replace(p, **{**timestamps, "tsval": p.us // 1000} if timestamps else {}) for p in lines
    ]
    stamped[-3] = replace(stamped[-3], **acknowledged)
    return stamped


def test_retransmission_called_for_by_an_ack_after_an_rto_expiry_was_lost_if_late():
    assert evidence(after_a_timeout(10 * SECOND)) == ["timeout"]
    assert evidence(after_a_timeout(100_000)) == []


def test_rto_expiry_that_the_sender_detects_as_spurious_calls_for_no_retransmission():
    """The ACK echoes d4, not d4' (RFC 3522)."""
    original, retransmitted = T // 1000, (T + 6 * SECOND) // 1000
    assert evidence(after_a_timeout(10 * SECOND, tsecr=retransmitted)) == ["timeout"]
    assert evidence(after_a_timeout(10 * SECOND, tsecr=original)) == []


def test_partial_ack_without_an_rto_expiry_calls_for_no_retransmission():
    """d4' was a fast retransmit, and no partial ACK has been answered."""
    dup_acks = [acked(T + 5_600_000 + SLOT_US * n, 3) for n in range(4)]
    assert evidence(after_a_timeout(10 * SECOND, *dup_acks)) == []


def partial_acks(
    flight_to: int,
    *,
    answered: bool = True,
    sack: bool = False,
    retransmitted_us: int = 12 * SECOND,
) -> list[Packet]:
    """
    Gi     | d4 ... d7            d4'     d5'     (d6')         d6'   d4, d5, d6 were lost on the
    mobile |            a3 a3 ...     a4      a5                      access side, d6' on the other
    """
    lines = [*started(sack), *flight(4, flight_to)]
    lines += [
        acked(T + 800_000 + SLOT_US * n, 3, *([(7, 7 + n)] if sack else [])) for n in range(3)
    ]
    lines += [sent(T + 1_250_000, 4), acked(T + 2 * SECOND, 4)]
    at = T + 2_500_000
    if not answered:
        lines += [acked(T + 2_200_000 + 100_000 * n, 4) for n in range(3)]
    lines += [sent(at, 5), acked(at + 700_000, 5)]
    return [*lines, sent(T + retransmitted_us, 6), acked(T + 20 * SECOND, flight_to)]


def test_retransmission_called_for_by_a_partial_ack_was_lost_if_late():
    """At a5 two of the first four are in flight. Or four of six: the window may forbid a
    retransmission."""
    assert evidence(partial_acks(9)) == []
    assert evidence(partial_acks(7)) == ["timeout"]
    assert evidence(partial_acks(7, retransmitted_us=3_300_000)) == []


@pytest.mark.parametrize("how", [{"answered": False}, {"sack": True}])
def test_partial_ack_calls_for_a_retransmission_only_if_one_was_answered_without_sack(how):
    """d5' answered three duplicates of a4, as only RFC 5681 asks for. Or there is SACK, and d6
    need not be held for lost."""
    assert evidence(partial_acks(7, **how)) == []


def hole_to_the_end(last_us: int) -> list[Packet]:
    """d4 (d5) d6, and nothing more but an ACK of d4."""
    return [*started(), sent(T, 4), sent(T + 2000, 6), acked(T + last_us, 4)]


def test_hole_still_open_at_the_end_is_a_loss():
    assert evidence(hole_to_the_end(2 * SECOND)) == ["hole"]
    row = tables(hole_to_the_end(2 * SECOND))["flows"][0]
    assert row["lost_internet"] == 1


def test_hole_seen_just_before_the_end_is_no_loss():
    assert evidence(hole_to_the_end(700_000)) == []


def test_open_hole_is_no_loss_where_the_capture_dropped_packets():
    """Of the same user it dropped d4 of another connection."""
    other = [*started(), sent(T, 5), acked(T + SECOND, 5)]
    others = [replace(p.later(20 * SECOND), port=3000) for p in other]
    assert evidence([*hole_to_the_end(2 * SECOND), *others]) == []
