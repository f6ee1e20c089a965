"""Causes of a server's retransmissions, in short exchanges; see `replies` and `segments`.

A retransmission is a prime: d2'. SYN ACKs are in `test_sender_handshake`, what order shows in
`test_sender_order`.
"""

from dataclasses import replace

import pytest

from tests.helpers.packet_script import Packet, tables
from tests.helpers.replies import (
    ANSWER_US,
    BEGIN,
    FIN,
    FIRST_ACK,
    MS,
    SECOND,
    TIMEOUT_US,
    after_a_timeout,
    causes_and_counts,
    duplicates,
    flight,
    retransmitted,
    server_packet,
    transfer,
)
from tests.helpers.segments import DATA, RTT_US, acked, opened, sent

# ---- duplicate ACKs and blocks -----------------------------------------------------------------


@pytest.mark.parametrize("sack", [False, True])
def test_retransmission_on_three_duplicate_acks_is_fast(sack):
    """
    Gi     | d1 d2 d3 d4 d5           d2'        RFC 5681, 3.2; RFC 6675
    mobile |            a1 a1 a1 a1       a5
    """
    lines = [*opened(sack), *flight(1, 5), acked(FIRST_ACK, 1)]
    lines += duplicates(3, FIRST_ACK + MS, sack=sack)
    at = FIRST_ACK + 3 * MS + ANSWER_US
    lines += [sent(at, 2), acked(at + RTT_US, 5)]
    assert causes_and_counts(lines) == (["fast"], 1, 0)


@pytest.mark.parametrize("sack", [False, True])
def test_retransmissions_at_partial_acks_are_fast(sack):
    """
    Gi     | d1 ... d7                  d2'       d4'      d6'        RFC 6582
    mobile |          a1 a1 a1 a1 a1        a3        a5       a7
    """
    lines = [*opened(sack), *flight(1, 7), acked(FIRST_ACK, 1)]
    blocks = [[(3, 3)], [(5, 5), (3, 3)], [(7, 7), (5, 5), (3, 3)]]
    for n, block in enumerate(blocks, 1):
        lines.append(acked(FIRST_ACK + n * MS, 1, *(block if sack else [])))
    at = FIRST_ACK + 3 * MS + ANSWER_US
    for n in (2, 4, 6):
        left = [(k, k) for k in (7, 5, 3) if k > n + 1 and sack]
        lines += [sent(at, n), acked(at + RTT_US, n + 1, *left)]
        at += RTT_US + ANSWER_US
    assert causes_and_counts(lines) == (["fast"] * 3, 3, 0)


def test_two_duplicate_acks_cause_no_fast_retransmission():
    """
    Gi     | d1 d2 d3 d4            d2'      2.1 s after a1 (RFC 5681, 3.2)
    mobile |          a1 a1 a1          a4
    """
    lines = [*opened(), *flight(1, 4), acked(FIRST_ACK, 1), *duplicates(2, FIRST_ACK + MS)]
    at = FIRST_ACK + ANSWER_US + TIMEOUT_US
    lines += [sent(at, 2), acked(at + RTT_US, 4)]
    assert causes_and_counts(lines) == (["rto"], 1, 1)


@pytest.mark.parametrize(
    ("kind", "count", "cause"),
    [
        ("duplicate", 3, "fast"),
        ("duplicate", 2, "rto"),
        ("window update", 3, "rto"),
        ("data", 3, "rto"),
    ],
)
def test_fast_retransmission_needs_three_duplicate_acks_without_data_or_window_update(
    kind, count, cause
):
    """
    Gi     | d1 d2 d3 d4 d5             d1'     the RTO expires then, too (RFC 5681, 2)
    mobile |               a0 a0 a0
    """
    due = BEGIN + TIMEOUT_US
    lines = [*opened(), *flight(1, 5)]
    for n in range(count):
        ack = acked(due - 80 * MS + n * MS, 0)
        if kind == "window update":
            ack = replace(ack, win=8193 + n)
        if kind == "data":
            ack = replace(ack, seq=300 + 10 * n, data=10)
        lines.append(ack)
    lines += [sent(due, 1), acked(due + RTT_US, 5)]
    assert causes_and_counts(lines) == ([cause], 1, cause == "rto")


def test_retransmission_at_an_ack_of_new_data_without_sack_is_fast():
    """
    Gi     | d6 ... d9                   d7'      some stacks go on with repairs (ns-3)
    mobile |               a6               a9
    """
    lines = [*opened(), *flight(1, 5), acked(FIRST_ACK, 1), *duplicates(3, FIRST_ACK + MS)]
    at = FIRST_ACK + 3 * MS + ANSWER_US
    lines += [sent(at, 2), acked(at + RTT_US, 5)]
    at += RTT_US + ANSWER_US
    lines += [*flight(6, 9, at), acked(at + RTT_US, 6), sent(at + RTT_US + ANSWER_US, 7)]
    lines.append(acked(at + 2 * RTT_US + ANSWER_US, 9))
    assert causes_and_counts(lines) == (["fast"] * 2, 2, 0)


# ---- RTO expiries ------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [1, 3])
def test_segment_retransmitted_after_silence_is_an_rto_retransmission(last):
    at = BEGIN + TIMEOUT_US
    lines = [*opened(), *flight(1, last), sent(at, 1), acked(at + RTT_US, last)]
    assert causes_and_counts(lines) == (["rto"], 1, 1)


def test_rto_expiries_are_counted_backed_off_or_not():
    """d1' after 2.1 s, d1'' 4.2 s later, d1''' 8.4 s later (RFC 6298, 5.5)."""
    ats = [BEGIN + TIMEOUT_US * k for k in (1, 3, 7)]
    lines = [*opened(), *flight(1, 3), *(sent(at, 1) for at in ats), acked(ats[-1] + RTT_US, 3)]
    assert causes_and_counts(lines) == (["rto"] * 3, 3, 3)


def test_timer_may_run_on_from_the_first_partial_ack():
    """
    Gi     | d1 ... d7            d2'    d4'    d6'      d6''   2.1 s after a3 (RFC 6582, 4)
    mobile |          a1 a1 a1 a1     a3     a5              a7
    """
    lines = [*opened(), *flight(1, 7), acked(FIRST_ACK, 1), *duplicates(3, FIRST_ACK + MS)]
    at = FIRST_ACK + 3 * MS + ANSWER_US
    lines += [sent(at, 2), acked(at + RTT_US, 3)]
    at += RTT_US + ANSWER_US
    lines += [sent(at, 4), acked(at + RTT_US, 5), sent(at + RTT_US + ANSWER_US, 6)]
    lines += [sent(at + TIMEOUT_US, 6), acked(at + TIMEOUT_US + RTT_US, 7)]
    assert causes_and_counts(lines) == (["fast", "fast", "fast", "rto"], 4, 1)


@pytest.mark.parametrize("sack", [False, True])
def test_rest_of_the_flight_after_an_rto_expiry_is_retransmitted_in_slow_start(sack):
    lines, _ = after_a_timeout(sack)
    causes = [*(["tlp"] if sack else []), "rto", *["slow_start"] * 3]
    assert causes_and_counts(lines) == (causes, len(causes), 1)


@pytest.mark.parametrize("sack", [False, True])
def test_loss_after_the_repair_of_an_rto_expiry_is_retransmitted_fast(sack):
    """
    Gi     | d5 ... d9                  d6'       after the exchange above
    mobile |           a5 a5 a5 a5          a9
    """
    lines, at = after_a_timeout(sack)
    causes, retransmissions, timeouts = causes_and_counts(lines)
    at += ANSWER_US
    lines += [*flight(5, 9, at), acked(at + RTT_US, 5)]
    lines += duplicates(3, at + RTT_US + MS, upto=5, sack=sack)
    at += RTT_US + 3 * MS + ANSWER_US
    lines += [sent(at, 6), acked(at + RTT_US, 9)]
    assert causes_and_counts(lines) == ([*causes, "fast"], retransmissions + 1, timeouts)


def test_lost_slow_start_retransmission_waits_for_another_rto_expiry():
    """
    Gi     | d1 d2 d3       d1'      d2'               d2''   4.2 s after a1 was heard: no sample
    mobile |                   a1                         a3  is taken of d1' (Karn)
    """
    at = BEGIN + TIMEOUT_US
    lines = [*opened(), *flight(1, 3), sent(at, 1), acked(at + RTT_US, 1)]
    heard = at + RTT_US + ANSWER_US
    lines += [sent(heard, 2), sent(heard + 2 * TIMEOUT_US, 2)]
    lines.append(acked(heard + 2 * TIMEOUT_US + RTT_US, 3))
    assert causes_and_counts(lines) == (["rto", "slow_start", "rto"], 3, 2)


@pytest.mark.parametrize("sack", [False, True])
def test_lost_fast_retransmission_waits_for_an_rto_expiry(sack):
    """
    Gi     | d1 ... d5            d2'        d2''     2.1 s later
    mobile |           a1 a1 a1 a1               a5
    """
    lines = [*opened(sack), *flight(1, 5), acked(FIRST_ACK, 1)]
    lines += duplicates(3, FIRST_ACK + MS, sack=sack)
    at = FIRST_ACK + 3 * MS + ANSWER_US
    lines += [sent(at, 2), sent(at + TIMEOUT_US, 2), acked(at + TIMEOUT_US + RTT_US, 5)]
    assert causes_and_counts(lines) == (["fast", "rto"], 2, 1)


def test_rto_expiry_follows_an_ack_lost_on_the_internet_side():
    """
    Gi     | d1       d1'       d2 ... d6                d3'    the first a1 was lost
    mobile |    a1        a1             a2 a2 a2 a2         a6
    """
    at = BEGIN + TIMEOUT_US
    lines = [*opened(), sent(BEGIN, 1), acked(FIRST_ACK, 1), sent(at, 1), acked(at + RTT_US, 1)]
    at += RTT_US + ANSWER_US
    lines += [*flight(2, 6, at), acked(at + RTT_US, 2), *duplicates(3, at + RTT_US + MS, upto=2)]
    at += RTT_US + 3 * MS + ANSWER_US
    lines += [sent(at, 3), acked(at + RTT_US, 6)]
    assert causes_and_counts(lines) == (["rto", "fast"], 2, 1)


# ---- loss probes -------------------------------------------------------------------------------


def with_a_probe(sack: bool = True) -> tuple[list[Packet], int]:
    """
    Gi     | d1 d2 d3                 d3'     two round trips after a1 was heard (RFC 8985, 7.2)
    mobile |         a1
    """
    at = FIRST_ACK + ANSWER_US + 2 * (RTT_US + ANSWER_US)
    return [*opened(sack), *flight(1, 3), acked(FIRST_ACK, 1), sent(at, 3)], at


def test_tail_retransmitted_after_two_round_trips_is_a_loss_probe():
    lines, at = with_a_probe()
    assert causes_and_counts([*lines, acked(at + RTT_US, 3)]) == (["tlp"], 1, 0)


def test_retransmission_after_a_loss_probe_is_an_rto_retransmission():
    """d2' 2.1 s after d3': RFC 8985, 7.3."""
    lines, at = with_a_probe()
    at += TIMEOUT_US
    lines += [sent(at, 2), acked(at + RTT_US, 3)]
    assert causes_and_counts(lines) == (["tlp", "rto"], 2, 1)


def test_single_segment_is_probed_once():
    """d1' after two round trips and 200 ms, d1'' after 2.1 s more."""
    at = BEGIN + 2 * (RTT_US + ANSWER_US) + 200 * MS
    lines = [*opened(sack=True), sent(BEGIN, 1), sent(at, 1), sent(at + TIMEOUT_US, 1)]
    assert causes_and_counts([*lines, acked(at + TIMEOUT_US + RTT_US, 1)]) == (["tlp", "rto"], 2, 1)


def test_another_loss_probe_may_follow_an_answer():
    """d4 and d5, and d5' two round trips after d5, as d3' before."""
    lines, at = with_a_probe()
    at += RTT_US
    lines += [acked(at, 3), *flight(4, 5, at + ANSWER_US)]
    at += ANSWER_US + MS + 2 * (RTT_US + ANSWER_US)
    assert causes_and_counts([*lines, sent(at, 5), acked(at + RTT_US, 5)]) == (["tlp", "tlp"], 2, 0)


def test_loss_found_by_a_loss_probe_is_retransmitted_fast():
    """
    Gi     | d1 d2 d3           d3'         d2'
    mobile |         a1            a1 (d3)     a3
    """
    lines, at = with_a_probe()
    lines += [acked(at + RTT_US, 1, (3, 3)), sent(at + RTT_US + ANSWER_US, 2)]
    lines.append(acked(at + 2 * RTT_US + ANSWER_US, 3))
    assert causes_and_counts(lines) == (["tlp", "fast"], 2, 0)


def test_no_loss_probe_without_sack():
    """RFC 8985, 7: a loss probe needs SACK."""
    lines, at = with_a_probe(sack=False)
    assert causes_and_counts([*lines, acked(at + RTT_US, 3)])[0] == ["rto"]


def new_data_after(us: int, sack: bool) -> list[Packet]:
    """d1 d2, and so long after d2 d3; d1 and d2 are late."""
    at = BEGIN + MS + us
    return [*opened(sack), *flight(1, 2), sent(at, 3), acked(at + RTT_US, 3)]


def test_loss_probe_may_carry_new_data():
    """After two round trips (RFC 8985, 7.3)."""
    lines = new_data_after(2 * (RTT_US + ANSWER_US), sack=True)
    rows = tables(lines)
    (row,) = rows["retransmissions"]
    assert (row["cause"], row["new_data"], row["needed"]) == ("tlp", True, None)
    assert row["original_frame"] is None
    assert rows["flows"][0]["retransmissions"] == 0


@pytest.mark.parametrize(
    ("us", "sack"), [(2 * (RTT_US + ANSWER_US), False), (RTT_US + ANSWER_US, True)]
)
def test_new_data_without_sack_or_before_two_round_trips_is_no_loss_probe(us, sack):
    assert causes_and_counts(new_data_after(us, sack)) == ([], 0, 0)


def test_new_data_that_answers_an_ack_is_no_loss_probe():
    """a1 comes just before the probe's time."""
    at = BEGIN + MS + 2 * (RTT_US + ANSWER_US)
    lines = [*opened(sack=True), *flight(1, 2), acked(at - ANSWER_US, 1), sent(at, 3)]
    assert causes_and_counts([*lines, acked(at + RTT_US, 3)]) == ([], 0, 0)


def test_loss_probe_of_old_data_is_not_new_data():
    lines, at = with_a_probe()
    (row,) = retransmitted([*lines, acked(at + RTT_US, 3)])
    assert row["new_data"] is False


# ---- FIN, probes, keep-alives ------------------------------------------------------------------


def test_retransmitted_fin_has_a_row_and_is_counted():
    """
    Gi     | d1 FIN               FIN'      2.1 s after a1 was heard
    mobile |          a1              a(FIN)
    """
    end = 500 + DATA
    at = FIRST_ACK + ANSWER_US + TIMEOUT_US
    lines = [
        *opened(),
        sent(BEGIN, 1),
        server_packet(BEGIN + MS, end, flags=FIN),
        acked(FIRST_ACK, 1),
    ]
    lines += [server_packet(at, end, flags=FIN), replace(acked(at + RTT_US, 1), ack=end + 1)]
    assert causes_and_counts(lines) == (["rto"], 1, 1)
    (row,) = retransmitted(lines)
    assert row["needed"] is None


def test_fin_retransmitted_because_its_ack_was_lost_is_no_keepalive():
    """
    Gi     | d1 FIN               FIN'          2.1 s after FIN
    mobile |          a(FIN)          a(FIN)    the first was lost
    """
    end, at = 500 + DATA, BEGIN + MS + TIMEOUT_US
    lines = [*opened(), sent(BEGIN, 1), server_packet(BEGIN + MS, end, flags=FIN)]
    lines += [replace(acked(FIRST_ACK, 1), ack=end + 1), server_packet(at, end, flags=FIN)]
    assert causes_and_counts([*lines, replace(acked(at + RTT_US, 1), ack=end + 1)]) == (
        ["rto"],
        1,
        1,
    )


@pytest.mark.parametrize("data", [0, 1])
def test_keepalive_is_no_retransmission(data):
    """One byte below what the mobile awaits (RFC 9293, 3.8.4)."""
    lines = transfer(2)
    end = 500 + 2 * DATA
    for k in (1, 2):
        lines.append(server_packet(60 * SECOND * k, end - 1, data))
        lines.append(acked(60 * SECOND * k + RTT_US, 2))
    assert causes_and_counts(lines) == ([], 0, 0)


def test_packet_without_data_at_the_next_sequence_number_is_no_keepalive():
    lines = [
        *transfer(2),
        server_packet(60 * SECOND, 500 + 2 * DATA),
        server_packet(120 * SECOND, 500 + 2 * DATA),
    ]
    assert causes_and_counts(lines) == ([], 0, 0)


def closed(lines: list[Packet], upto: int) -> tuple[list[Packet], int]:
    """The mobile closes its window."""
    at = lines[-1].us
    return [*lines[:-1], replace(acked(at, upto), win=0)], at


@pytest.mark.parametrize("data", [0, 1])
def test_window_probe_one_byte_below_is_no_retransmission(data):
    """As Linux does: what the mobile has."""
    lines, at = closed(transfer(2), 2)
    for _ in range(2):
        at += SECOND
        lines += [
            server_packet(at, 500 + 2 * DATA - 1, data),
            replace(acked(at + RTT_US, 2), win=0),
        ]
    assert causes_and_counts(lines) == ([], 0, 0)


def test_window_probe_with_the_next_byte_is_no_retransmission():
    """RFC 9293, 3.8.6.1; whether the mobile would take it, Gi cannot know."""
    lines, at = closed(transfer(2), 2)
    for _ in range(3):
        at += 2 * SECOND
        lines += [server_packet(at, 500 + 2 * DATA, 1), replace(acked(at + RTT_US, 2), win=0)]
    assert causes_and_counts(lines) == ([], 0, 0)
