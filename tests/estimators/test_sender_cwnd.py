"""The congestion window after each packet of a server, in segments; see `replies`."""

import pytest

from tests.helpers.packet_script import Packet, partition
from tests.helpers.replies import ANSWER_US, BEGIN, MS, SECOND, flight, server_packet, windowed
from tests.helpers.segments import DATA, RTT_US, acked, opened, sent

LATE_US = 100 * MS
"""By so much the RTT grows when the access link begins to queue."""


def windows(lines: list[Packet]) -> list[float]:
    """Return the congestion window after each packet, once a segment was seen."""
    states = partition(sorted(lines, key=lambda p: p.us)).server_states(0)
    return [cwnd / DATA for cwnd in states["cwnd"].tolist() if cwnd >= DATA]


def test_short_first_segment_that_gi_never_saw_is_one_segment():
    """The first segment has 44 bytes, as HTTP's headers in a segment of their own."""
    late = BEGIN + SECOND
    lines = [*opened(), *(server_packet(BEGIN + n * MS, 544 + DATA * n, DATA) for n in range(9))]
    lines += [server_packet(late, 500, 44), Packet(late + RTT_US, "up", ack=9544, seq=300)]
    assert max(windows(lines)) <= 10


def slow_start(window: int, queueing_us: int) -> list[Packet]:
    """Four rounds of slow start up to the mobile's window; each segment is acknowledged. From the
    second round on, the RTT is longer by `queueing_us`."""
    lines, number, due = opened(), 10, []
    for n in range(10):
        at = BEGIN + n * MS
        lines.append(sent(at, n + 1))
        due.append(at + RTT_US)
    for turn in range(4):
        acks, due = due, []
        begin = number - len(acks)
        for n, at in enumerate(acks):
            lines.append(acked(at, begin + n + 1))
            for _ in range(min(2, window - (number - begin - n - 1))):
                number += 1
                lines.append(sent(at + ANSWER_US, number))
                due.append(max(at + ANSWER_US + RTT_US + queueing_us, due[-1] + MS if due else 0))
        assert turn == 0 or len(due) == window
    return windowed(lines, window)


def test_slow_start_goes_on_to_twice_the_mobiles_window():
    assert windows(slow_start(20, 0))[-1] == pytest.approx(40, abs=1)


def test_longer_rtt_ends_slow_start():
    """By the ninth sample of the second round: 20 segments, and one more for each ACK (HyStart)."""
    assert windows(slow_start(20, LATE_US))[-1] == pytest.approx(29, abs=1)


def recovered(d_sack: bool) -> list[Packet]:
    """
    Gi     | d1 ... d10                    d1'          d1 was overtaken by d2, d3 and d4
    mobile |             a0 a0 a0  a10          a10 (d1)
    """
    lines = [*opened(sack=True), *flight(1, 10)]
    at = BEGIN + RTT_US
    lines += [acked(at + n * MS, 0, (2, 1 + n)) for n in (1, 2, 3)]
    lines.append(acked(at + 10 * MS, 10))
    lines.append(sent(at + 3 * MS + ANSWER_US, 1))
    lines.append(acked(at + SECOND, 10, *([(1, 1)] if d_sack else [])))
    return lines


def test_d_sacks_of_all_retransmissions_undo_the_reduction():
    """A loss leaves 7 of 10 segments; the ACK that ends the recovery lets CUBIC grow (RFC 9438)."""
    assert windows(recovered(d_sack=False))[-1] < 9.5
    assert windows(recovered(d_sack=True))[-1] == 10
