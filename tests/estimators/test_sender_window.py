"""The time for which a server was busy, and the part of it in which only the mobile's window held
it back; see `replies`. Both by the server's clock: a packet passes Gi 50 ms after it was
sent, and is heard 50 ms after it passed."""

from dataclasses import replace

import pytest

from tests.helpers.packet_script import Packet, flow
from tests.helpers.replies import (
    ANSWER_US,
    BEGIN,
    FIN,
    MS,
    SECOND,
    TIMEOUT_US,
    flight,
    transfer,
    windowed,
)
from tests.helpers.segments import DATA, RTT_US, acked, opened, sent

TURN = (RTT_US + ANSWER_US) / SECOND
HALF = ANSWER_US / 2 / SECOND


# ---- busy --------------------------------------------------------------------------------------


def test_busy_lasts_from_the_first_data_to_the_ack_of_the_last():
    """d1 at 0.9 s, d2 and d3 at 1.6 s, a3 at 2.2 s."""
    lines = [*opened(), sent(BEGIN, 1), acked(BEGIN + RTT_US, 1)]
    lines += [*flight(2, 3, 1_600_000), acked(2_200_000, 3)]
    assert flow(lines)["busy"] == pytest.approx(2 * TURN)


@pytest.mark.parametrize("pause_s", [0.3, 20])
def test_pause_between_two_responses_is_not_busy(pause_s):
    second_at = BEGIN + RTT_US + round(pause_s * SECOND)
    lines = [*opened(), sent(BEGIN, 1), acked(BEGIN + RTT_US, 1)]
    lines += [sent(second_at, 2), acked(second_at + RTT_US, 2)]
    assert flow(lines)["busy"] == pytest.approx(2 * TURN)


def test_server_is_busy_while_only_a_part_is_acknowledged():
    lines = [*opened(), *flight(1, 2), acked(BEGIN + RTT_US, 1), acked(BEGIN + 3 * SECOND, 2)]
    assert flow(lines)["busy"] == pytest.approx(3 + 2 * HALF)


def test_handshake_and_fin_do_not_make_a_server_busy():
    fin = Packet(5 * SECOND, "down", FIN, seq=500, ack=300)
    lines = [*opened(), fin, replace(acked(8 * SECOND, 0), ack=501)]
    assert flow(lines)["busy"] == 0


@pytest.mark.parametrize(("way", "share"), [("up", HALF), ("down", -HALF)])
def test_reset_ends_busy_time(way, share):
    """300 ms after d1 at Gi; what comes later is not data."""
    seq = 300 if way == "up" else 1500
    reset = Packet(BEGIN + 300 * MS, way, frozenset({"RST"}), seq=seq)
    lines = [*opened(), sent(BEGIN, 1), reset, replace(reset, us=60 * SECOND)]
    assert flow(lines)["busy"] == pytest.approx(0.3 + HALF + share)


def test_unacknowledged_data_is_busy_time_until_the_last_packet():
    """Data that nobody acknowledges, in flight until the last packet."""
    lines = [*opened(), sent(BEGIN, 1), sent(BEGIN + TIMEOUT_US, 1)]
    assert flow(lines)["busy"] == pytest.approx(TIMEOUT_US / SECOND, abs=HALF)


def test_connection_without_data_is_not_busy():
    row = flow(opened()[:3])
    assert (row["busy"], row["rwnd_limited"]) == (0, 0)


# ---- rwnd_limited ------------------------------------------------------------------------------


def rounds(count: int, at_once: int, window: float) -> list[Packet]:
    """So many round trips of so many segments each, acknowledged together."""
    lines = opened()
    for k in range(count):
        at = BEGIN + k * (RTT_US + ANSWER_US)
        lines += flight(k * at_once + 1, (k + 1) * at_once, at)
        lines.append(acked(at + RTT_US, (k + 1) * at_once))
    return windowed(lines, window)


@pytest.mark.parametrize("window", [2, 2.5])
@pytest.mark.parametrize("count", [2, 10])
def test_small_window_limits_all_rounds_but_the_last(count, window):
    """Two segments a round trip, 1 ms apart. Each round but the last, until its ACK."""
    row = flow(rounds(count, 2, window))
    assert row["busy"] == pytest.approx(count * TURN)
    assert row["rwnd_limited"] == pytest.approx((count - 1) * TURN, abs=0.001 * count)


@pytest.mark.parametrize(("window", "at_once"), [(65, 10), (65, 2), (11, 10), (3, 2)])
def test_window_that_is_not_filled_does_not_limit(window, at_once):
    assert flow(rounds(10, at_once, window))["rwnd_limited"] == 0


def test_window_is_scaled():
    """2 << 9 bytes hold one segment, 2 << 10 two."""
    lines = rounds(5, 2, 2 / DATA)
    syn, synack, *rest = lines
    rows = [
        flow([replace(syn, ws=shift, win=2048), replace(synack, ws=0), *rest]) for shift in (10, 14)
    ]
    assert rows[0]["rwnd_limited"] == pytest.approx(4 * TURN, abs=0.005)
    assert rows[1]["rwnd_limited"] == 0


def test_pause_of_the_application_is_not_limited_by_the_window():
    """The window is full at the end of each response, and nothing waits."""
    lines = opened()
    for k in range(4):
        at = BEGIN + k * 10 * SECOND
        lines += [*flight(2 * k + 1, 2 * k + 2, at), acked(at + RTT_US, 2 * k + 2)]
    row = flow(windowed(lines, 2))
    assert (row["busy"], row["rwnd_limited"]) == (pytest.approx(4 * TURN, rel=0.01), 0)


def reopened() -> dict:
    """
    Gi     | d1 d2                  d3       a2 closes the window at 1.5 s, an update opens it at
    mobile |       a2      a2           a3   4.5 s; d3 is sent at once
    """
    lines = [*windowed([*opened(), *flight(1, 2)], 2), replace(acked(BEGIN + RTT_US, 2), win=0)]
    opens = BEGIN + RTT_US + 3 * SECOND
    lines += [acked(opens, 2), sent(opens + ANSWER_US, 3), acked(opens + ANSWER_US + RTT_US, 3)]
    return flow(lines)


def test_closed_window_limits_until_it_opens():
    assert reopened()["rwnd_limited"] == pytest.approx(TURN + 3, abs=0.002)


def test_sender_that_waits_for_a_closed_window_is_busy():
    """d3 was there all the time, as it comes at once: a round trip, 3 s, and another."""
    assert reopened()["busy"] == pytest.approx(2 * TURN + 3)


def test_after_an_rto_expiry_the_congestion_window_limits_from_the_next_ack_on():
    """
    Gi     | d1 ... d8         d1'     d2' d3'     d4' ... d7'    d8' d9
    mobile |                      a1          a3             a7         a9

    The window of eight segments is full from d8 until the RTO expires, 2.1 s after d1. Linux
    looks at its windows when it hears or is given data, not when its RTO expires: until a1.
    """
    at = BEGIN + TIMEOUT_US
    lines = [*opened(), *flight(1, 8), sent(at, 1)]
    for upto, first, last in ((1, 2, 3), (3, 4, 7), (7, 8, 9)):
        lines.append(acked(at + RTT_US, upto))
        at += RTT_US + ANSWER_US
        lines += flight(first, last, at)
    row = flow(windowed([*lines, acked(at + RTT_US, 9)], 8))
    assert row["rwnd_limited"] == pytest.approx(2.1 - 0.007 + TURN, abs=0.01)


@pytest.mark.parametrize("sack", [False, True])
def test_in_recovery_the_congestion_window_limits_first(sack):
    """
    Gi     | d1 ... d9               d1'      d10 d11     The window of nine segments is full from
    mobile |           a0 a0 a0         a9            a11 d9 until the third a0

    Six are then in flight, more than half of nine (RFC 5681, 3.2: cwnd is 4.5 + 3, in flight are 9;
    RFC 6675: 4.5, and the pipe 6; RFC 6937: the same pipe, reduced to half of cwnd step by step).
    """
    lines = [*opened(sack), *flight(1, 9)]
    lines += [acked(BEGIN + RTT_US + n * MS, 0, *([(2, 1 + n)] if sack else [])) for n in (1, 2, 3)]
    at = BEGIN + RTT_US + 3 * MS + ANSWER_US
    lines += [sent(at, 1), acked(at + RTT_US, 9)]
    at += RTT_US + ANSWER_US
    lines += [*flight(10, 11, at), acked(at + RTT_US, 11)]
    assert flow(windowed(lines, 9))["rwnd_limited"] == pytest.approx(TURN - 0.005, abs=0.01)


@pytest.mark.parametrize("sack", [False, True])
def test_recovery_with_a_large_window_is_not_limited_by_it(sack):
    lines = [*opened(sack), *flight(1, 8)]
    for n in range(7):
        blocks = [(2, 2 + n)] if sack else []
        lines.append(acked(BEGIN + RTT_US + (n + 1) * MS, 0, *blocks))
    at = BEGIN + RTT_US + 3 * MS + ANSWER_US
    lines += [sent(at, 1), acked(at + RTT_US, 8)]
    at += RTT_US + ANSWER_US
    lines += [*flight(9, 12, at), acked(at + RTT_US, 12)]
    lines.sort(key=lambda p: p.us)
    assert flow(windowed(lines, 65))["rwnd_limited"] == 0


def test_transfer_a_segment_at_a_time_is_not_limited():
    """The window of eight segments is never full."""
    row = flow(transfer(10))
    assert row["rwnd_limited"] == 0
    assert row["busy"] == pytest.approx(10 * TURN)
