"""What limited a transfer, and for how long, by the server's clock; see `replies`.

The first data passes Gi 200 ms after the ACK that ends the handshake, which is a round trip and
100 ms more: these the server took.
"""

from dataclasses import replace

import pytest
from packet_script import NOON, Packet, partition, tables
from replies import (
    ANSWER_US,
    BEGIN,
    FIN,
    FIRST_ACK,
    MS,
    SECOND,
    TIMEOUT_US,
    after_a_timeout,
    bare,
    duplicates,
    flight,
    transfer,
    windowed,
)
from segments import RTT_US, acked, opened, sent

from spark_jobs.estimators.sender.limits import MOBILE, SERVER, intervals

NAMES = ("channel", "receiver", "recovery", "slow_start", "server", "mobile")
OPENED = 700 * MS
"""The handshake is done."""
FIRST = 0.1
"""The server's part before the first data (s)."""
TURN = (RTT_US + ANSWER_US) / SECOND


def limits(lines: list[Packet]) -> dict:
    (row,) = tables(sorted(lines, key=lambda p: p.us))["flows"]
    times = {name: row[f"limited_{name}"] for name in NAMES}
    assert row["limited_by"] == max(times, key=times.__getitem__)
    return times


def seconds(**times: float) -> object:
    """These, and nothing else."""
    return pytest.approx(dict.fromkeys(NAMES, 0.0) | times, abs=1e-5)


def rounds(*sizes: int, window: float = 65) -> list[Packet]:
    """A round trip each: so many segments, 1 ms apart, and one ACK of all."""
    lines, at, n = opened(), BEGIN, 0
    for size in sizes:
        lines += flight(n + 1, n + size, at)
        n += size
        lines.append(acked(lines[-1].us + RTT_US, n))
        at = lines[-1].us + ANSWER_US
    return windowed(lines, window)


def of_rounds(*sizes: int) -> float:
    """How long they take."""
    return sum(TURN + (size - 1) / 1000 for size in sizes)


# ---- the sum -----------------------------------------------------------------------------------


def test_times_add_up_to_the_transfer():
    """From the handshake's ACK, 0.7 s, to the last one."""
    at = BEGIN + 10 * SECOND
    lines = [*opened(), *flight(1, 3), acked(BEGIN + RTT_US, 3)]
    times = limits([*lines, *flight(4, 5, at), acked(at + RTT_US, 5)])
    assert sum(times.values()) == pytest.approx((at + RTT_US - 700_000) / 1e6)


@pytest.mark.parametrize(
    "lines",
    [
        transfer(4),
        after_a_timeout()[0],
        after_a_timeout(sack=True)[0],
        rounds(10, 20, 40),
        rounds(3, 3, 3, window=3),
        rounds(10, 2, 30, window=30),
    ],
    ids=["transfer", "timeout", "probe", "slow start", "window", "rounds"],
)
def test_what_comes_after_the_last_data_is_not_shared_out(lines):
    """A FIN 20 s later, and its ACK."""
    last = lines[-1]
    fin = replace(bare(last.us + 20 * SECOND, last.ack, flags=FIN), ack=300)
    answer = replace(last, us=fin.us + RTT_US, ack=last.ack + 1)
    expected = pytest.approx((last.us - OPENED) / SECOND)
    assert sum(limits(lines).values()) == expected
    assert sum(limits([*lines, fin, answer]).values()) == expected


def test_transfer_that_nobody_acknowledges_lasts_until_the_last_packet():
    """d1' by the timer, half of 100 ms before it passes Gi; then Gi sees no more."""
    times = limits([*opened(), sent(BEGIN, 1), sent(BEGIN + TIMEOUT_US, 1)])
    whole = (BEGIN + TIMEOUT_US - OPENED) / SECOND
    assert sum(times.values()) == pytest.approx(whole, abs=0.051)


def test_connection_without_data_is_not_limited():
    (row,) = tables(opened())["flows"]
    assert [row[f"limited_{name}"] for name in NAMES] == [0.0] * 6
    assert row["limited_by"] is None


# ---- each of them ------------------------------------------------------------------------------


def test_queue_behind_gi_is_the_channels():
    """Twenty segments at once on a link that takes 100 ms for each: all ACKs but the first."""
    lines = [*opened(), *flight(1, 20)]
    lines += [acked(BEGIN + RTT_US + 100_000 * n, n) for n in range(1, 21)]
    times = limits(windowed(lines, 60))
    assert times["channel"] == pytest.approx(1.9, abs=0.01)


def test_full_window_on_an_idle_link_is_the_receivers():
    """Two segments a round trip, and a window of two; whether more waits behind the last two is not
    seen."""
    lines, at = opened(), BEGIN
    for k in range(10):
        lines += [*flight(2 * k + 1, 2 * k + 2, at), acked(at + RTT_US, 2 * k + 2)]
        at += RTT_US + 100_000
    times = limits(windowed(lines, 2))
    assert times["receiver"] == pytest.approx(10 * 0.7, rel=0.01)


def test_timeout_and_what_it_repairs_is_recovery():
    """From d1 on: nothing is heard until d1' is answered, 2.1 s and a round trip later."""
    due = BEGIN + TIMEOUT_US
    lines = [*opened(), *flight(1, 3), sent(due, 1), acked(due + RTT_US, 3)]
    assert limits(lines) == seconds(recovery=TIMEOUT_US / SECOND + TURN, server=FIRST)


@pytest.mark.parametrize("sack", [False, True])
def test_all_that_a_timeout_sends_again_is_recovery(sack):
    lines, end = after_a_timeout(sack)
    whole = (end + ANSWER_US - BEGIN) / SECOND
    assert limits(lines) == seconds(recovery=whole, server=FIRST)


@pytest.mark.parametrize("sack", [False, True])
def test_fast_recovery_is_from_the_retransmission_to_its_ack(sack):
    """
    Gi     | d1 ... d5               d2'       five segments are less than the initial window
    mobile |           a1 a1 a1 a1       a5
    """
    lines = [*opened(sack), *flight(1, 5), acked(FIRST_ACK, 1)]
    lines += duplicates(3, FIRST_ACK + MS, sack=sack)
    at = FIRST_ACK + 3 * MS + ANSWER_US
    times = limits([*lines, sent(at, 2), acked(at + RTT_US, 5)])
    assert times == seconds(recovery=TURN, server=FIRST + TURN + 0.003)


def test_windows_filled_before_any_loss_are_slow_starts():
    """The initial window of ten segments (RFC 6928), and twice as many each time."""
    times = limits(rounds(10, 20, 40))
    assert times == seconds(slow_start=of_rounds(10, 20, 40), server=FIRST)


def test_window_that_has_room_is_the_servers():
    """After the first round the congestion window holds twenty segments."""
    times = limits(rounds(10, 10, 10, 10))
    assert times == seconds(slow_start=of_rounds(10), server=FIRST + of_rounds(10, 10, 10))


def test_segment_a_second_is_the_servers():
    lines = transfer(5)
    assert limits(lines) == seconds(server=(lines[-1].us - OPENED) / SECOND)


def test_server_that_thinks_and_mobile_that_waits_are_told_apart():
    """The mobile asks again 5 s after it has all; the server answers 3 s later."""
    asks = BEGIN + RTT_US + 5 * SECOND
    lines = [*opened(), sent(BEGIN, 1), acked(BEGIN + RTT_US, 1), replace(acked(asks, 1), data=200)]
    answer = replace(sent(asks + 100_000 + 3 * SECOND, 2), ack=500)
    times = limits([*lines, answer, replace(acked(answer.us + RTT_US, 2), seq=500)])
    assert times == seconds(mobile=5, server=FIRST + TURN + 3 + TURN)


def test_intervals_follow_each_other():
    """It asks 1 us after the handshake, and again 5 s after it has all, as above; the server hears
    half of a round trip later than Gi sees."""
    asks = BEGIN + RTT_US + 5 * SECOND
    lines = [*opened(), sent(BEGIN, 1), acked(BEGIN + RTT_US, 1), replace(acked(asks, 1), data=200)]
    answer = replace(sent(asks + 100_000 + 3 * SECOND, 2), ack=500)
    made = partition([*lines, answer, replace(acked(answer.us + RTT_US, 2), seq=500)])
    found = intervals(made.server_states(0))
    begins = [OPENED, OPENED + 1, BEGIN + RTT_US, asks, answer.us + RTT_US]
    half = made.servers["internet_rtt"][0] / 2
    assert found["limit"].tolist() == [MOBILE, SERVER, MOBILE, SERVER]
    assert found["start"].tolist() == [NOON + at + half for at in begins[:-1]]
    assert found["end"].tolist() == [NOON + at + half for at in begins[1:]]


def test_intervals_of_what_was_not_limited():
    assert len(intervals(partition(opened()).server_states(0))) == 0


def test_request_that_comes_late_is_the_mobiles():
    """10 s after the handshake; d1 200 ms after it."""
    *handshake, request = opened()
    late = [replace(request, us=OPENED + 10 * SECOND)]
    late += [p.later(10 * SECOND) for p in (sent(BEGIN, 1), acked(FIRST_ACK, 1))]
    assert limits([*handshake, *late]) == seconds(mobile=10, server=FIRST + TURN)


@pytest.mark.parametrize("window", [2, 8])
@pytest.mark.parametrize("probe", [None, 0, 1], ids=["unprobed", "a byte below", "its next byte"])
def test_closed_window_is_the_mobiles(window, probe):
    """Closed with all acknowledged, and opened 4 s later; d3 answers at once."""
    lines = windowed([*opened(), *flight(1, 2)], window)
    closed = replace(acked(FIRST_ACK, 2), win=0)
    lines.append(closed)
    if probe is not None:
        for at in (FIRST_ACK + SECOND, FIRST_ACK + 2 * SECOND):
            lines += [bare(at, 2500 - 1 + probe, 1), closed.later(at + RTT_US - FIRST_ACK)]
    opens = FIRST_ACK + 4 * SECOND
    there = opens + ANSWER_US
    lines += windowed([acked(opens, 2), sent(there, 3), acked(there + RTT_US, 3)], window)
    times = limits(lines)
    assert times["mobile"] == pytest.approx(4, abs=0.11)
    assert sum(times.values()) == pytest.approx((there + RTT_US - OPENED) / SECOND)
    (row,) = tables(lines)["flows"]
    assert (row["retransmissions"], row["rto_expiries"]) == (0, 0)
