"""The limits of a transfer, and how long each lasted, by the server's clock; see `replies`.

The first data passes Gi 200 ms after the ACK that ends the handshake, which is a round trip and
100 ms more, which count as the server's.
"""

from dataclasses import replace

import pytest

from spark_jobs.estimators.sender.limits import MOBILE, SERVER, intervals
from tests.helpers.packet_script import NOON, Packet, partition, tables
from tests.helpers.replies import (
    ANSWER_US,
    BEGIN,
    FIN,
    FIRST_ACK,
    MS,
    SECOND,
    TIMEOUT_US,
    after_a_timeout,
    duplicates,
    flight,
    server_packet,
    transfer,
    windowed,
)
from tests.helpers.segments import RTT_US, acked, opened, sent

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


def test_limited_times_add_up_to_the_transfers_duration():
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
def test_time_after_the_last_data_belongs_to_no_limit(lines):
    """A FIN 20 s later, and its ACK."""
    last = lines[-1]
    fin = replace(server_packet(last.us + 20 * SECOND, last.ack, flags=FIN), ack=300)
    answer = replace(last, us=fin.us + RTT_US, ack=last.ack + 1)
    expected = pytest.approx((last.us - OPENED) / SECOND)
    assert sum(limits(lines).values()) == expected
    assert sum(limits([*lines, fin, answer]).values()) == expected


def test_unacknowledged_transfer_lasts_until_the_last_packet():
    """d1' at the RTO expiry, half of 100 ms before it passes Gi; then Gi sees no more."""
    times = limits([*opened(), sent(BEGIN, 1), sent(BEGIN + TIMEOUT_US, 1)])
    whole = (BEGIN + TIMEOUT_US - OPENED) / SECOND
    assert sum(times.values()) == pytest.approx(whole, abs=0.051)


def test_connection_without_data_has_no_limit():
    (row,) = tables(opened())["flows"]
    assert [row[f"limited_{name}"] for name in NAMES] == [0.0] * 6
    assert row["limited_by"] is None


# ---- each of them ------------------------------------------------------------------------------


def test_queue_on_the_access_side_is_limited_by_the_channel():
    """Twenty segments at once on a link that takes 100 ms for each: all ACKs but the first."""
    lines = [*opened(), *flight(1, 20)]
    lines += [acked(BEGIN + RTT_US + 100_000 * n, n) for n in range(1, 21)]
    times = limits(windowed(lines, 60))
    assert times["channel"] == pytest.approx(1.9, abs=0.01)


def test_full_window_on_an_idle_link_is_limited_by_the_receiver():
    """Two segments a round trip, and a window of two; whether the server has more after the last
    two is not seen."""
    lines, at = opened(), BEGIN
    for k in range(10):
        lines += [*flight(2 * k + 1, 2 * k + 2, at), acked(at + RTT_US, 2 * k + 2)]
        at += RTT_US + 100_000
    times = limits(windowed(lines, 2))
    assert times["receiver"] == pytest.approx(10 * 0.7, rel=0.01)


def test_rto_expiry_and_the_repair_after_it_are_recovery():
    """From d1 on: nothing is heard until d1' is answered, 2.1 s and a round trip later."""
    due = BEGIN + TIMEOUT_US
    lines = [*opened(), *flight(1, 3), sent(due, 1), acked(due + RTT_US, 3)]
    assert limits(lines) == seconds(recovery=TIMEOUT_US / SECOND + TURN, server=FIRST)


@pytest.mark.parametrize("sack", [False, True])
def test_retransmissions_after_an_rto_expiry_are_recovery(sack):
    lines, end = after_a_timeout(sack)
    whole = (end + ANSWER_US - BEGIN) / SECOND
    assert limits(lines) == seconds(recovery=whole, server=FIRST)


@pytest.mark.parametrize("sack", [False, True])
def test_fast_recovery_lasts_from_the_retransmission_to_its_ack(sack):
    """
    Gi     | d1 ... d5               d2'       five segments are less than the initial window
    mobile |           a1 a1 a1 a1       a5
    """
    lines = [*opened(sack), *flight(1, 5), acked(FIRST_ACK, 1)]
    lines += duplicates(3, FIRST_ACK + MS, sack=sack)
    at = FIRST_ACK + 3 * MS + ANSWER_US
    times = limits([*lines, sent(at, 2), acked(at + RTT_US, 5)])
    assert times == seconds(recovery=TURN, server=FIRST + TURN + 0.003)


def test_windows_filled_before_any_loss_are_limited_by_slow_start():
    """The initial window of ten segments (RFC 6928), and twice as many each time."""
    times = limits(rounds(10, 20, 40))
    assert times == seconds(slow_start=of_rounds(10, 20, 40), server=FIRST)


def test_window_with_room_is_limited_by_the_server():
    """After the first round the congestion window holds twenty segments."""
    times = limits(rounds(10, 10, 10, 10))
    assert times == seconds(slow_start=of_rounds(10), server=FIRST + of_rounds(10, 10, 10))


def test_one_segment_a_second_is_limited_by_the_server():
    lines = transfer(5)
    assert limits(lines) == seconds(server=(lines[-1].us - OPENED) / SECOND)


def test_pauses_of_the_server_and_of_the_mobile_are_distinguished():
    """The mobile's second request comes 5 s after it has all; the server answers 3 s later."""
    asks = BEGIN + RTT_US + 5 * SECOND
    lines = [*opened(), sent(BEGIN, 1), acked(BEGIN + RTT_US, 1), replace(acked(asks, 1), data=200)]
    answer = replace(sent(asks + 100_000 + 3 * SECOND, 2), ack=500)
    times = limits([*lines, answer, replace(acked(answer.us + RTT_US, 2), seq=500)])
    assert times == seconds(mobile=5, server=FIRST + TURN + 3 + TURN)


def test_intervals_of_limits_follow_each_other_without_gaps():
    """The mobile's requests come 1 us after the handshake and 5 s after it has all, as above; the
    server hears half of a round trip later than Gi sees."""
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


def test_connection_without_data_has_no_intervals():
    assert len(intervals(partition(opened()).server_states(0))) == 0


def test_late_request_is_limited_by_the_mobile():
    """10 s after the handshake; d1 200 ms after it."""
    *handshake, request = opened()
    late = [replace(request, us=OPENED + 10 * SECOND)]
    late += [p.later(10 * SECOND) for p in (sent(BEGIN, 1), acked(FIRST_ACK, 1))]
    assert limits([*handshake, *late]) == seconds(mobile=10, server=FIRST + TURN)


@pytest.mark.parametrize("window", [2, 8])
@pytest.mark.parametrize("probe", [None, 0, 1], ids=["unprobed", "a byte below", "its next byte"])
def test_closed_window_is_limited_by_the_mobile(window, probe):
    """Closed with all acknowledged, and opened 4 s later; d3 answers at once."""
    lines = windowed([*opened(), *flight(1, 2)], window)
    closed = replace(acked(FIRST_ACK, 2), win=0)
    lines.append(closed)
    if probe is not None:
        for at in (FIRST_ACK + SECOND, FIRST_ACK + 2 * SECOND):
            lines += [server_packet(at, 2500 - 1 + probe, 1), closed.later(at + RTT_US - FIRST_ACK)]
    opens = FIRST_ACK + 4 * SECOND
    there = opens + ANSWER_US
    lines += windowed([acked(opens, 2), sent(there, 3), acked(there + RTT_US, 3)], window)
    times = limits(lines)
    assert times["mobile"] == pytest.approx(4, abs=0.11)
    assert sum(times.values()) == pytest.approx((there + RTT_US - OPENED) / SECOND)
    (row,) = tables(lines)["flows"]
    assert (row["retransmissions"], row["rto_expiries"]) == (0, 0)
