"""Why a server sent something again, on short exchanges; see `replies` and `segments`.

A resend is a prime: d4' that Gi saw, (d4') that it did not.
"""

from dataclasses import replace

import pytest
from exchange import Packet, read, tables
from hypothesis import given, settings
from hypothesis import strategies as st
from replies import (
    ANSWER_US,
    BEGIN,
    MS,
    SECOND,
    TIMEOUT_US,
    did,
    duplicates,
    flight,
    transfer,
)
from segments import ACK, DATA, RTT_US, acked, opened, sent
from test_invariance import exchanges

FIN = frozenset({"FIN", "ACK"})
FIRST_ACK = BEGIN + RTT_US


def resent(lines: list[Packet]) -> list[dict]:
    return tables(lines)["retransmissions"]


# ---- SYN ACK -----------------------------------------------------------------------------------

REQUEST = """
    {0:.3f} up    ACK      seq=100 ack=500
    {1:.3f} up    ACK      seq=100 ack=500 data=200
    {2:.3f} down  ACK      seq=500 ack=300 data=1000
    {3:.3f} up    ACK      seq=300 ack=1500
"""


def handshake(*lines: str, then: float = 0.6) -> list[Packet]:
    """SYN 0.0 SYN_ACK 0.1 ...; `then` after the last one the handshake ends, and a request is
    answered after 100 ms."""
    script = "".join(
        f"{at} up SYN seq=99\n" if name == "SYN" else f"{at} down SYN ACK seq=499 ack=100\n"
        for name, at in (line.split() for line in lines)
    )
    end = float(lines[-1].split()[1]) + then
    return read(script + REQUEST.format(end, end + 0.2, end + 0.3, end + 0.9))


def test_synack_answers_a_syn_that_came_again():
    """
    Gi     | SYN SYNACK       SYN SYNACK
    at (s) | 0   0.1          1   1.1
    """
    lines = handshake("SYN 0", "SYNACK 0.1", "SYN 1", "SYNACK 1.1")
    assert did(lines) == (["synack"], 1, 0)


@pytest.mark.parametrize(
    ("again", "times"), [(["SYNACK 1.1"], 1), (["SYNACK 1.1", "SYNACK 3.1"], 2)]
)
def test_synack_after_a_second_of_silence_is_the_timers(again, times):
    """RFC 6298, 2.1 and 5.5: after 1 s, and 2 s after that."""
    lines = handshake("SYN 0", "SYNACK 0.1", *again)
    assert did(lines) == (["synack"] * times, times, times)


@pytest.mark.parametrize("syn", ["SYN 1.070", "SYN 1.030"])
def test_timer_and_a_syn_at_nearly_the_same_time(syn):
    """Two SYN ACKs for one SYN that came again: one of them is the timer's. It may pass Gi sooner
    than an answer can, or just when the SYN may have been heard."""
    answer = f"SYNACK {float(syn.split()[1]) + 0.1}"
    lines = handshake("SYN 0", "SYNACK 0.1", syn, "SYNACK 1.1", answer)
    assert did(lines) == (["synack", "synack"], 2, 1)


def test_single_synack_a_little_too_soon_for_an_answer_is_one():
    """It passes Gi 70 ms after the SYN; the timer's would have been followed by an answer."""
    lines = handshake("SYN 0", "SYNACK 0.1", "SYN 1.030", "SYNACK 1.1")
    assert did(lines) == (["synack"], 1, 0)


def test_first_synack_may_answer_the_second_syn():
    """The first SYN was lost before the server."""
    assert did(handshake("SYN 0", "SYN 1", "SYNACK 1.1")) == ([], 0, 0)


def test_synack_that_gi_never_saw_is_told_by_the_timers():
    """
    Gi     | SYN (SYNACK)       SYNACK       the server is 100 ms away
    at (s) | 0                  1.1
    """
    assert did(handshake("SYN 0", "SYNACK 1.1")) == (["synack"], 1, 1)


def test_synack_that_gi_never_saw_is_told_by_a_timer_that_came_too_soon():
    """
    Gi     | SYN (SYNACK)  SYN SYNACK     SYNACK'      the timer is not set anew by an answer
    at (s) | 0             0.6 0.7        1.1
    """
    lines = handshake("SYN 0", "SYN 0.6", "SYNACK 0.7", "SYNACK 1.1")
    assert did(lines) == (["synack"], 2, 1)


def test_first_timeout_before_a_sample_is_the_networks():
    """With 3 s (RFC 1122) a SYN ACK after 1 s is not the second."""
    lines = handshake("SYN 0", "SYNACK 1.1")
    assert did(lines, initial_rto_s=3.0) == ([], 0, 0)


def test_synack_again_has_no_data_to_be_needed():
    (row,) = resent(handshake("SYN 0", "SYNACK 0.1", "SYNACK 1.1"))
    assert (row["needed"], row["new_data"]) == (None, False)
    assert (row["spurious_rto"], row["spurious_by"]) == (None, None)


def test_syn_of_a_server_that_calls_is_sent_again_by_its_timer():
    lines = read(
        """
        0.000 down SYN      seq=499
        1.000 down SYN      seq=499
        1.600 up   SYN ACK  seq=99  ack=500
        1.700 down ACK      seq=500 ack=100
        2.400 up   ACK      seq=100 ack=500 data=200
        2.500 down ACK      seq=500 ack=300 data=1000
        3.100 up   ACK      seq=300 ack=1500
        """
    )
    assert did(lines) == (["rto"], 1, 1)


# ---- duplicate ACKs and blocks -----------------------------------------------------------------


@pytest.mark.parametrize("sack", [False, True])
def test_resend_on_three_duplicate_acks_is_fast(sack):
    """
    Gi     | d1 d2 d3 d4 d5           d2'        RFC 5681, 3.2; RFC 6675
    mobile |            a1 a1 a1 a1       a5
    """
    lines = [*opened(sack), *flight(1, 5), acked(FIRST_ACK, 1)]
    lines += duplicates(3, FIRST_ACK + MS, sack=sack)
    at = FIRST_ACK + 3 * MS + ANSWER_US
    lines += [sent(at, 2), acked(at + RTT_US, 5)]
    assert did(lines) == (["fast"], 1, 0)


@pytest.mark.parametrize("sack", [False, True])
def test_resends_at_partial_acks_are_fast(sack):
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
    assert did(lines) == (["fast"] * 3, 3, 0)


def test_two_duplicate_acks_tell_of_no_loss():
    """
    Gi     | d1 d2 d3 d4            d2'      2.1 s after a1 (RFC 5681, 3.2)
    mobile |          a1 a1 a1          a4
    """
    lines = [*opened(), *flight(1, 4), acked(FIRST_ACK, 1), *duplicates(2, FIRST_ACK + MS)]
    at = FIRST_ACK + ANSWER_US + TIMEOUT_US
    lines += [sent(at, 2), acked(at + RTT_US, 4)]
    assert did(lines) == (["rto"], 1, 1)


@pytest.mark.parametrize(
    ("kind", "count", "cause"),
    [
        ("duplicate", 3, "fast"),
        ("duplicate", 2, "rto"),
        ("window update", 3, "rto"),
        ("data", 3, "rto"),
    ],
)
def test_three_duplicates_without_data_and_with_the_same_window_tell_of_a_loss(kind, count, cause):
    """
    Gi     | d1 d2 d3 d4 d5             d1'     the timer is due then, too (RFC 5681, 2)
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
    assert did(lines) == ([cause], 1, cause == "rto")


# ---- timeouts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [1, 3])
def test_head_resent_after_a_silence_is_the_timers(last):
    at = BEGIN + TIMEOUT_US
    lines = [*opened(), *flight(1, last), sent(at, 1), acked(at + RTT_US, last)]
    assert did(lines) == (["rto"], 1, 1)


def test_timeouts_are_counted_backed_off_or_not():
    """d1' after 2.1 s, d1'' 4.2 s later, d1''' 8.4 s later (RFC 6298, 5.5)."""
    ats = [BEGIN + TIMEOUT_US * k for k in (1, 3, 7)]
    lines = [*opened(), *flight(1, 3), *(sent(at, 1) for at in ats), acked(ats[-1] + RTT_US, 3)]
    assert did(lines) == (["rto"] * 3, 3, 3)


def after_a_timeout(sack: bool = False) -> tuple[list[Packet], int]:
    """
    Gi     | d1 d2 d3 d4         d1'     d2' d3'     d4'        all was lost
    mobile |                        a1          a3      a4

    With SACK, the tail d4 is sent again as a probe first, and lost. And when a4 passes Gi.
    """
    at = BEGIN + TIMEOUT_US
    lines = [*opened(sack), *flight(1, 4)]
    if sack:
        probed = lines[-1].us + 2 * (RTT_US + ANSWER_US)
        lines.append(sent(probed, 4))
        at = probed + TIMEOUT_US
    lines.append(sent(at, 1))
    for upto, resends in ((1, (2, 3)), (3, (4,))):
        lines.append(acked(at + RTT_US, upto))
        at += RTT_US + ANSWER_US
        lines += [sent(at, n) for n in resends]
    return [*lines, acked(at + RTT_US, 4)], at + RTT_US


@pytest.mark.parametrize("sack", [False, True])
def test_rest_of_the_flight_after_a_timeout_is_slow_start(sack):
    lines, _ = after_a_timeout(sack)
    causes = [*(["tlp"] if sack else []), "rto", *["slow_start"] * 3]
    assert did(lines) == (causes, len(causes), 1)


@pytest.mark.parametrize("sack", [False, True])
def test_losses_after_a_timeout_is_repaired_are_fast_again(sack):
    """
    Gi     | d5 ... d9                  d6'       after the exchange above
    mobile |           a5 a5 a5 a5          a9
    """
    lines, at = after_a_timeout(sack)
    causes, resends, timeouts = did(lines)
    at += ANSWER_US
    lines += [*flight(5, 9, at), acked(at + RTT_US, 5)]
    lines += duplicates(3, at + RTT_US + MS, upto=5, sack=sack)
    at += RTT_US + 3 * MS + ANSWER_US
    lines += [sent(at, 6), acked(at + RTT_US, 9)]
    assert did(lines) == ([*causes, "fast"], resends + 1, timeouts)


def test_resend_after_a_timeout_that_is_lost_too_waits_for_the_timer_again():
    """
    Gi     | d1 d2 d3       d1'      d2'               d2''   4.2 s after a1 was heard: no sample
    mobile |                   a1                         a3  is taken of d1' (Karn)
    """
    at = BEGIN + TIMEOUT_US
    lines = [*opened(), *flight(1, 3), sent(at, 1), acked(at + RTT_US, 1)]
    heard = at + RTT_US + ANSWER_US
    lines += [sent(heard, 2), sent(heard + 2 * TIMEOUT_US, 2)]
    lines.append(acked(heard + 2 * TIMEOUT_US + RTT_US, 3))
    assert did(lines) == (["rto", "slow_start", "rto"], 3, 2)


@pytest.mark.parametrize("sack", [False, True])
def test_fast_resend_that_is_lost_too_waits_for_the_timer(sack):
    """
    Gi     | d1 ... d5            d2'        d2''     2.1 s later
    mobile |           a1 a1 a1 a1               a5
    """
    lines = [*opened(sack), *flight(1, 5), acked(FIRST_ACK, 1)]
    lines += duplicates(3, FIRST_ACK + MS, sack=sack)
    at = FIRST_ACK + 3 * MS + ANSWER_US
    lines += [sent(at, 2), sent(at + TIMEOUT_US, 2), acked(at + TIMEOUT_US + RTT_US, 5)]
    assert did(lines) == (["fast", "rto"], 2, 1)


def test_timeout_because_an_ack_was_lost_before_the_server():
    """
    Gi     | d1       d1'       d2 ... d6                d3'    The first a1 did not come through
    mobile |    a1        a1             a2 a2 a2 a2         a6
    """
    at = BEGIN + TIMEOUT_US
    lines = [*opened(), sent(BEGIN, 1), acked(FIRST_ACK, 1), sent(at, 1), acked(at + RTT_US, 1)]
    at += RTT_US + ANSWER_US
    lines += [*flight(2, 6, at), acked(at + RTT_US, 2), *duplicates(3, at + RTT_US + MS, upto=2)]
    at += RTT_US + 3 * MS + ANSWER_US
    lines += [sent(at, 3), acked(at + RTT_US, 6)]
    assert did(lines) == (["rto", "fast"], 2, 1)


# ---- loss probes -------------------------------------------------------------------------------


def with_a_probe(sack: bool = True) -> tuple[list[Packet], int]:
    """
    Gi     | d1 d2 d3                 d3'     two round trips after a1 was heard (RFC 8985, 7.2)
    mobile |         a1
    """
    at = FIRST_ACK + ANSWER_US + 2 * (RTT_US + ANSWER_US)
    return [*opened(sack), *flight(1, 3), acked(FIRST_ACK, 1), sent(at, 3)], at


def test_tail_resent_after_two_round_trips_is_a_loss_probe():
    lines, at = with_a_probe()
    assert did([*lines, acked(at + RTT_US, 3)]) == (["tlp"], 1, 0)


def test_after_a_loss_probe_comes_a_timeout():
    """d2' 2.1 s after d3': RFC 8985, 7.3."""
    lines, at = with_a_probe()
    at += TIMEOUT_US
    lines += [sent(at, 2), acked(at + RTT_US, 3)]
    assert did(lines) == (["tlp", "rto"], 2, 1)


def test_single_segment_is_probed_once():
    """d1' after two round trips and 200 ms, d1'' after 2.1 s more."""
    at = BEGIN + 2 * (RTT_US + ANSWER_US) + 200 * MS
    lines = [*opened(sack=True), sent(BEGIN, 1), sent(at, 1), sent(at + TIMEOUT_US, 1)]
    assert did([*lines, acked(at + TIMEOUT_US + RTT_US, 1)]) == (["tlp", "rto"], 2, 1)


def test_after_an_answer_there_is_a_probe_again():
    """d4 and d5, and d5' two round trips after d5, as d3' before."""
    lines, at = with_a_probe()
    at += RTT_US
    lines += [acked(at, 3), *flight(4, 5, at + ANSWER_US)]
    at += ANSWER_US + MS + 2 * (RTT_US + ANSWER_US)
    assert did([*lines, sent(at, 5), acked(at + RTT_US, 5)]) == (["tlp", "tlp"], 2, 0)


def test_probe_that_finds_a_loss_is_followed_by_fast_resends():
    """
    Gi     | d1 d2 d3           d3'         d2'
    mobile |         a1            a1 (d3)     a3
    """
    lines, at = with_a_probe()
    lines += [acked(at + RTT_US, 1, (3, 3)), sent(at + RTT_US + ANSWER_US, 2)]
    lines.append(acked(at + 2 * RTT_US + ANSWER_US, 3))
    assert did(lines) == (["tlp", "fast"], 2, 0)


def test_no_loss_probe_without_sack():
    """RFC 8985, 7: a loss probe needs SACK."""
    lines, at = with_a_probe(sack=False)
    assert did([*lines, acked(at + RTT_US, 3)])[0] == ["rto"]


def new_data_after(us: int, sack: bool) -> list[Packet]:
    """d1 d2, and so long after d2 d3; d1 and d2 are late."""
    at = BEGIN + MS + us
    return [*opened(sack), *flight(1, 2), sent(at, 3), acked(at + RTT_US, 3)]


def test_probe_may_carry_new_data():
    """After two round trips (RFC 8985, 7.3)."""
    lines = new_data_after(2 * (RTT_US + ANSWER_US), sack=True)
    rows = tables(lines)
    (row,) = rows["retransmissions"]
    assert (row["cause"], row["new_data"], row["needed"]) == ("tlp", True, None)
    assert row["original_frame"] is None
    assert rows["flows"][0]["resends"] == 0


@pytest.mark.parametrize(
    ("us", "sack"), [(2 * (RTT_US + ANSWER_US), False), (RTT_US + ANSWER_US, True)]
)
def test_new_data_without_sack_or_before_two_round_trips_is_no_probe(us, sack):
    assert did(new_data_after(us, sack)) == ([], 0, 0)


def test_new_data_that_answers_an_ack_is_no_probe():
    """a1 comes just before the probe's time."""
    at = BEGIN + MS + 2 * (RTT_US + ANSWER_US)
    lines = [*opened(sack=True), *flight(1, 2), acked(at - ANSWER_US, 1), sent(at, 3)]
    assert did([*lines, acked(at + RTT_US, 3)]) == ([], 0, 0)


def test_resend_by_a_probe_is_not_new():
    lines, at = with_a_probe()
    (row,) = resent([*lines, acked(at + RTT_US, 3)])
    assert row["new_data"] is False


# ---- FIN, probes, keep-alives ------------------------------------------------------------------


def bare(at_us: int, seq: int, data: int = 0, flags: frozenset[str] = ACK) -> Packet:
    return Packet(at_us, "down", flags, seq=seq, ack=300, data=data)


def test_fin_sent_again_has_a_row_and_counts():
    """
    Gi     | d1 FIN               FIN'      2.1 s after a1 was heard
    mobile |          a1              a(FIN)
    """
    end = 500 + DATA
    at = FIRST_ACK + ANSWER_US + TIMEOUT_US
    lines = [*opened(), sent(BEGIN, 1), bare(BEGIN + MS, end, flags=FIN), acked(FIRST_ACK, 1)]
    lines += [bare(at, end, flags=FIN), replace(acked(at + RTT_US, 1), ack=end + 1)]
    assert did(lines) == (["rto"], 1, 1)
    (row,) = resent(lines)
    assert row["needed"] is None


def test_fin_whose_ack_was_lost_before_the_server_is_no_keepalive():
    """
    Gi     | d1 FIN               FIN'          2.1 s after FIN
    mobile |          a(FIN)          a(FIN)    the first did not come through
    """
    end, at = 500 + DATA, BEGIN + MS + TIMEOUT_US
    lines = [*opened(), sent(BEGIN, 1), bare(BEGIN + MS, end, flags=FIN)]
    lines += [replace(acked(FIRST_ACK, 1), ack=end + 1), bare(at, end, flags=FIN)]
    assert did([*lines, replace(acked(at + RTT_US, 1), ack=end + 1)]) == (["rto"], 1, 1)


@pytest.mark.parametrize("data", [0, 1])
def test_keepalive_is_no_resend(data):
    """One byte below what the mobile awaits (RFC 9293, 3.8.4)."""
    lines = transfer(2)
    end = 500 + 2 * DATA
    for k in (1, 2):
        lines.append(bare(60 * SECOND * k, end - 1, data))
        lines.append(acked(60 * SECOND * k + RTT_US, 2))
    assert did(lines) == (["keepalive", "keepalive"], 0, 0)


def test_packet_without_data_in_its_turn_is_no_keepalive():
    lines = [*transfer(2), bare(60 * SECOND, 500 + 2 * DATA), bare(120 * SECOND, 500 + 2 * DATA)]
    assert did(lines) == ([], 0, 0)


def closed(lines: list[Packet], upto: int) -> tuple[list[Packet], int]:
    """The mobile closes its window."""
    at = lines[-1].us
    return [*lines[:-1], replace(acked(at, upto), win=0)], at


@pytest.mark.parametrize("data", [0, 1])
def test_zero_window_is_probed_one_byte_below(data):
    """As Linux does: what the mobile has."""
    lines, at = closed(transfer(2), 2)
    for _ in range(2):
        at += SECOND
        lines += [
            bare(at, 500 + 2 * DATA - 1, data),
            replace(acked(at + RTT_US, 2), win=0),
        ]
    assert did(lines) == (["probe", "probe"], 0, 0)


def test_zero_window_is_probed_with_its_next_byte():
    """RFC 9293, 3.8.6.1. The first time that byte is new."""
    lines, at = closed(transfer(2), 2)
    for _ in range(3):
        at += 2 * SECOND
        lines += [bare(at, 500 + 2 * DATA, 1), replace(acked(at + RTT_US, 2), win=0)]
    assert did(lines) == (["probe", "probe"], 0, 0)


# ---- the order at the server -------------------------------------------------------------------


@pytest.mark.parametrize("after_ms", [-20, 20, 60, 90])
def test_resend_that_left_before_an_ack_was_heard_is_classed_by_what_was_known(after_ms):
    """
    Gi     | d1 ... d5                       d2'    d2 was only late behind Gi: a5 passes Gi when
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


def counted(lines: list[Packet], *ids: int) -> list[Packet]:
    """The data have these IP IDs."""
    left = iter(ids)
    return [replace(p, id=next(left)) if p.way == "down" and p.data else p for p in lines]


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
def test_segment_overtaken_before_gi_is_no_resend(late_ms):
    """Its ID is of its turn: 7 after 8."""
    lines = counted(overtaken(late_ms * MS), 1, 2, 3, 4, 5, 6, 8, 7, 9, 10)
    assert did(lines) == ([], 0, 0)


def test_id_of_later_tells_a_resend_however_soon_it_comes():
    """d7 has an ID after d8's: (d7) was lost before Gi."""
    lines = counted(overtaken(690 * MS), 1, 2, 3, 4, 5, 6, 8, 9, 10, 11)
    causes, resends, _ = did(lines)
    assert (len(causes), resends) == (1, 1)


@pytest.mark.parametrize(("late_ms", "resends"), [(40, 0), (690, 0), (3000, 1)])
def test_without_ids_what_comes_sooner_than_a_round_trip_was_overtaken(late_ms, resends):
    """A round trip of the server's is 700 ms."""
    causes, count, _ = did(overtaken(late_ms * MS))
    assert (len(causes), count) == (resends, resends)


# ---- resends that Gi never saw -----------------------------------------------------------------


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


def test_resend_that_gi_never_saw_counts_by_the_gap_in_the_ids():
    """8 is missing: d6' was lost before Gi, and the timer went off for it."""
    assert did(backed_off(1, 2, 3, 4, 5, 6, 7, 9)) == (["rto"], 2, 2)


def test_ids_without_a_gap_tell_of_none():
    causes, resends, _ = did(backed_off(1, 2, 3, 4, 5, 6, 7, 8))
    assert (causes, resends) == (["rto"], 1)


@pytest.mark.parametrize(
    "ids",
    [
        (0,) * 8,
        (7, 60000, 300, 21000, 5, 40000, 9000, 9002),
        (1, 101, 201, 301, 401, 501, 601, 603),
    ],
)
def test_ids_that_do_not_count_up_tell_nothing(ids):
    causes, resends, _ = did(backed_off(*ids))
    assert (causes, resends) == (["rto"], 1)


def test_ids_wrap():
    """65535 is followed by 0."""
    ids = [(65530 + k) % 65536 for k in (0, 1, 2, 3, 4, 5, 6, 8)]
    assert did(backed_off(*ids)) == (["rto"], 2, 2)


def test_new_segment_that_gi_never_saw_is_no_resend():
    """d7 and its ID are missing."""
    lines = [*transfer(5), *flight(6, 6, 7 * SECOND), *flight(8, 9, 7 * SECOND + 2 * MS)]
    lines = counted([*lines, acked(8 * SECOND, 9)], 1, 2, 3, 4, 5, 6, 8, 9)
    assert did(lines) == ([], 0, 0)


# ---- nothing known -----------------------------------------------------------------------------


SENDING = ("resends", "timeouts", "busy", "rwnd_limited")
MIDDLE = [*transfer(3)[4:], sent(5 * SECOND, 4), sent(8 * SECOND, 4), acked(9 * SECOND, 4)]
"""Seen from its middle, without a request: d1 a1 d2 a2 d3 a3 d4 d4' a4."""


def way(lines: list[Packet], *ways: str) -> list[Packet]:
    return [p for p in lines if p.way in ways]


@pytest.mark.parametrize(
    "lines",
    [
        MIDDLE,
        MIDDLE[-3:],
        way(MIDDLE, "down"),
        way(MIDDLE, "up"),
        way([*opened(), *MIDDLE], "down"),
        way([*opened(), *MIDDLE], "up"),
    ],
    ids=["middle", "end", "middle down", "middle up", "down", "up"],
)
def test_server_whose_distance_is_not_known_has_nothing_told_of_it(lines):
    """An ACK without data is answered by nothing; and a way alone has no round trip."""
    rows = tables(lines)
    (flow,) = rows["flows"]
    assert [flow[name] for name in SENDING] == [None] * 4
    assert {row["cause"] for row in rows["retransmissions"]} <= {None}
    assert len(rows["retransmissions"]) == bool(way(lines, "down"))
    assert rows["timers"] == []


def test_request_tells_the_distance():
    """The same with a request that is answered after 100 ms; d4' comes 3 s after d4."""
    request = replace(acked(5 * SECOND - ANSWER_US, 3), data=50)
    answer = [replace(p, ack=350) for p in MIDDLE[-3:-1]]
    assert did([*MIDDLE[:-3], request, *answer, replace(MIDDLE[-1], seq=350)]) == (["rto"], 1, 1)


@pytest.mark.parametrize(
    ("echoed", "told"), [(True, (["rto"], 1, 1)), (False, ([None], None, None))]
)
def test_timestamps_tell_the_distance(echoed, told):
    """d2 echoes what a1 brought (RFC 7323); nothing else is answered: the server never acknowledges
    what the mobile sent before a1."""
    lines = [replace(p, tsval=p.us // MS, tsecr=1) for p in MIDDLE]
    lines = [replace(p, ack=250) if p.way == "down" else p for p in lines]
    if echoed:
        lines[2] = replace(lines[2], tsecr=lines[1].tsval)
    assert did(lines) == told


# ---- whatever comes ----------------------------------------------------------------------------

WHOLE = after_a_timeout(sack=True)[0]
AT = WHOLE[-1].us + SECOND
SENSELESS = {
    "sequence jump up": [sent(AT, 2**30 // DATA), acked(AT + RTT_US, 2**30 // DATA)],
    "sequence jump down": [replace(sent(AT, 1), seq=(500 - 2**30) % 2**32)],
    "jumps to and fro": [sent(AT + k, (k % 2) * 2**30 // DATA + k + 1) for k in range(200)],
    "ACK of data never sent": [acked(AT, 2**30 // DATA), acked(AT + 1, 900_000)],
    "holes": [sent(AT + k, 5 + 2 * k) for k in range(3000)],
    "holes of any size": [sent(AT + k, 5 + k * k) for k in range(1, 1400)],
    "blocks of nothing": [
        replace(acked(AT, 4), sack=f"{a}-{b}")
        for a, b in ((0, 0), (9000, 8000), (2**31, 2**31 + 1), (500, 2**32 - 1), (4500, 4501))
    ],
    "blocks of holes": [
        *(sent(AT + k, 5 + 2 * k) for k in range(500)),
        *(acked(AT + SECOND + k, 4, (5 + 2 * k, 5 + 2 * k), (6, 2000)) for k in range(500)),
    ],
    "no data, no end": [bare(AT + k, 4500, flags=FIN) for k in range(300)],
    "SYNs": [replace(p, us=AT + k) for k in range(300) for p in opened()[:2]],
}


@pytest.mark.parametrize("name", SENSELESS)
def test_what_makes_no_sense_changes_nothing_before_it(name):
    """Nor does it stop the work."""
    before = [(row["ts"], row["cause"]) for row in resent(WHOLE)]
    rows = tables([*WHOLE, *SENSELESS[name]])
    after = [(row["ts"], row["cause"]) for row in rows["retransmissions"]]
    assert after[: len(before)] == before
    assert rows["flows"][0]["timeouts"] >= 1


def told(lines: list[Packet], user: str = "anna") -> tuple[list, ...]:
    """All that the tables tell of a user's servers, but for the key."""
    rows = tables(lines)
    ids = [row["flow_id"] for row in rows["flows"] if row["user"] == user]
    return tuple(
        [
            {name: row[name] for name in row if name not in ("flow_id", *without)}
            for row in rows[table]
            if row["flow_id"] in ids
        ]
        for table, without in (
            ("flows", ()),
            ("timers", ()),
            ("retransmissions", ("frame", "original_frame")),
        )
    )


@pytest.mark.parametrize("sack", [False, True])
@pytest.mark.parametrize("down", [-500, -1700, -4000, 2**31])
def test_sequence_numbers_may_wrap_anywhere(sack, down):
    lines, _ = after_a_timeout(sack)
    assert told([p.numbered(2**32 - 150, down % 2**32) for p in lines]) == told(lines)


def test_other_users_change_nothing():
    lines, _ = after_a_timeout(True)
    others = [replace(p.later(3 * MS), user=user) for p in lines for user in ("aaron", "bert")]
    assert told([*lines, *others]) == told(lines)


@settings(max_examples=60, deadline=None)
@given(exchanges(), exchanges(user="bert"), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_numbers_and_others_change_nothing_whatever_comes(exchange, others, up, down):
    moved = [packet.numbered(up, down) for packet in exchange]
    assert told(others + moved) == told(exchange)


@settings(max_examples=60, deadline=None)
@given(exchanges())
def test_counts_fit_each_other_whatever_comes(exchange):
    """The mobile's window holds back only who is busy; each resend that Gi saw is counted."""
    rows = tables(exchange)
    for flow in rows["flows"]:
        mine = [r for r in rows["retransmissions"] if r["flow_id"] == flow["flow_id"]]
        if flow["resends"] is None:
            assert {r["cause"] for r in mine} <= {None}
            continue
        assert 0 <= flow["rwnd_limited"] <= flow["busy"]
        seen = [r for r in mine if r["cause"] not in (None, "probe", "keepalive")]
        assert flow["resends"] >= sum(not r["new_data"] for r in seen)
        assert flow["timeouts"] >= sum(r["cause"] == "rto" for r in mine)
