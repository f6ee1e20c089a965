"""stalls: silences that a connection's own timing does not explain.

The RTT on the access side is 600 ms, on the Internet side 100 ms: a stall is longer than two round
trips, 1.4 s, or than the RTO, 2.1 s after the handshake, if this is less.
"""

from dataclasses import replace

import pytest

from tests.helpers.packet_script import Packet, tables
from tests.helpers.segments import RTT_US, SLOT_US, acked, opened, sent, started, user_seen_at

SECOND = 1_000_000
BEGIN = 900_000
T = 5_000_000
TIMEOUT_US = 2_500_000


def flight(first: int, last: int, at: int) -> list[Packet]:
    return [sent(at + n, n) for n in range(first, last + 1)]


def stalls(lines: list[Packet]) -> list[dict]:
    return tables(sorted(lines, key=lambda p: p.us))["stalls"]


def one(lines: list[Packet]) -> dict:
    (row,) = stalls(lines)
    return row


def test_late_ack_ends_a_packet_delay():
    row = one([*opened(), sent(BEGIN, 1), acked(BEGIN + 1_800_000, 1)])
    assert (row["class"], row["ended_by"], row["lost"]) == ("packet_delay", "mobile", 0)
    assert (row["end_ts"] - row["start_ts"]).total_seconds() == pytest.approx(1.8 + 0.1)
    assert row["recovery"] == pytest.approx(1.8 + 0.1)


def test_silence_of_a_round_trip_is_no_stall():
    assert stalls([*opened(), sent(BEGIN, 1), acked(BEGIN + RTT_US, 1)]) == []


def test_late_answer_of_the_server_is_a_stall_by_unavailable_data():
    """The request came with the handshake; the answer 5 s later."""
    row = one([*opened(), sent(BEGIN + 5 * SECOND, 1), acked(BEGIN + 5 * SECOND + RTT_US, 1)])
    assert (row["class"], row["ended_by"]) == ("data_unavailable", "server")


def test_stall_that_the_mobiles_next_request_ends_is_client_idle():
    at = BEGIN + 10 * SECOND
    request = replace(acked(at, 1), data=200)
    answer = replace(sent(at + 100_000, 2), ack=500)
    lines = [*opened(), sent(BEGIN, 1), acked(BEGIN + RTT_US, 1), request, answer]
    row = one([*lines, replace(acked(at + 700_000, 2), seq=500)])
    assert (row["class"], row["ended_by"], row["segments"]) == ("client_idle", "mobile", 0)


def test_stall_that_a_window_update_ends_is_a_zero_window():
    closed = replace(acked(BEGIN + RTT_US, 1), win=0)
    opens = acked(BEGIN + 5 * SECOND, 1)
    lines = [*opened(), sent(BEGIN, 1), closed, opens, sent(BEGIN + 5 * SECOND + 100_000, 2)]
    row = one([*lines, acked(BEGIN + 6 * SECOND, 2)])
    assert row["class"] == "zero_window"


def test_rto_expiry_ends_a_stall_with_slow_start():
    """d4 to d6 are retransmitted after 2.5 s; all that was in flight is acknowledged 1.7 s
    later."""
    lines = [*started(), *flight(4, 6, T), sent(T + TIMEOUT_US, 4)]
    at = T + TIMEOUT_US + RTT_US + SLOT_US
    lines += [acked(at, 4), *flight(5, 6, at + 100_000), acked(at + SECOND, 6)]
    row = one(lines)
    assert (row["ended_by"], row["slow_start"], row["segments"]) == ("server", True, 3)
    assert row["recovery"] == pytest.approx(
        (TIMEOUT_US + RTT_US + SLOT_US + SECOND) / 1e6, abs=0.11
    )


def on_another(p: Packet) -> Packet:
    return replace(p, port=2000)


PAUSE = [
    *started(),
    *flight(4, 6, T),
    *(acked(T + 5 * SECOND + n * SLOT_US, n) for n in range(4, 7)),
]
"""Nothing comes for 5 s, then all does."""


def test_pause_of_the_link_is_detected_by_the_silence_of_the_user():
    row = one(PAUSE)
    assert (row["class"], row["interruption"]) == ("packet_delay", "pause")


def test_link_is_not_paused_while_the_user_sends_anything():
    """An ACK on another connection, another protocol's packet."""
    asks = [replace(on_another(p), us=T + p.us) for p in opened()[:3]]
    ping = Packet(T + 2 * SECOND, "up", frozenset({"UDP"}), data=40)
    for others in (asks, [ping]):
        rows = stalls([*PAUSE, *others])
        assert ("packet_delay", None) in [(r["class"], r["interruption"]) for r in rows]
        assert "pause" not in [r["interruption"] for r in rows]


def flushed(lost: range, count: int = 12) -> list[Packet]:
    """
    Gi     | d4 ... d15        d4'       d5' ... d13'            d4 to d13 were lost: the head
    mobile |                       a4(14-15)      a15
    """
    last = 3 + count
    lines = [*started(sack=True), *flight(4, last, T)]
    lines += [acked(T + RTT_US + SLOT_US * (n - 3), n) for n in range(4, lost[0])]
    at = T + 2 * TIMEOUT_US
    lines.append(sent(at, lost[0]))
    beyond = [(lost[-1] + 1, last)] if lost[-1] < last else []
    at += RTT_US + SLOT_US
    lines.append(acked(at, lost[0], *beyond))
    at += 100_000
    for place, n in enumerate(lost[1:], 1):
        upto = last if n == lost[-1] else n
        there = at + RTT_US + place * SLOT_US
        lines += [sent(at + n, n), acked(there, upto, *(beyond if upto < last else []))]
    return [*lines, *user_seen_at(at + 60 * SECOND)]


def test_loss_of_the_queues_head_is_a_flush():
    row = one(flushed(range(4, 14)))
    assert (row["class"], row["interruption"]) == ("continuous_loss", "flush")
    assert (row["lost"], row["lost_run"], row["arrived_after"]) == (10, 10, 2)


def test_loss_of_the_queues_tail_is_no_flush():
    """d4 to d6 arrive, the rest is lost."""
    row = stalls(flushed(range(7, 16)))[0]
    assert (row["lost_run"], row["arrived_after"], row["interruption"]) == (9, 0, None)


WINDOW, LAST_HEARD, FLUSHED = 40, 63, 10


def held_up(silence: int, flushed: int = FLUSHED) -> list[Packet]:
    """A link that is heard each 0.1 s while 40 segments are in flight: round trips of 4.6 s.
    It is silent for so long more, and loses so many segments.

    Gi     | d4 ... d43  d44 ... d103                           d64' ... d73'
    mobile |      a4 ... a63                a63(74) ... a63(74-103)     ...  a103
    """
    after, end = LAST_HEARD + 1 + flushed, LAST_HEARD + WINDOW
    lines = [*started(sack=True), *flight(4, 3 + WINDOW, T)]
    at = T + RTT_US
    for n in (*range(4, LAST_HEARD + 1), *range(after, end + 1)):
        at += SLOT_US + (silence if n == after else 0)
        if n <= LAST_HEARD:
            lines += [acked(at, n), sent(at + 100_000, n + WINDOW)]
        elif flushed:
            lines.append(acked(at, LAST_HEARD, (after, n)))
        else:
            lines.append(acked(at, n))
    for n in range(LAST_HEARD + 1, after):
        lines.append(sent(at + 100_000 + n, n))
        upto = end if n == after - 1 else n
        there = at + 100_000 + RTT_US + SLOT_US * (n - LAST_HEARD)
        lines.append(acked(there, upto, *([(after, end)] if upto < end else [])))
    return lines


def test_flush_is_detected_where_round_trips_are_longer_than_the_silence():
    """Three seconds are no stall of a connection whose round trips take 4.6 s."""
    row = one(held_up(3 * SECOND))
    assert (row["class"], row["interruption"]) == ("packet_delay", "flush")
    assert (row["ended_by"], row["slow_start"]) == ("mobile", False)
    assert (row["lost"], row["arrived_after"]) == (FLUSHED, WINDOW - FLUSHED)
    assert (row["end_ts"] - row["start_ts"]).total_seconds() == pytest.approx(3.1)
    others = WINDOW - FLUSHED - 1
    repaired = others * 0.1 + 0.1 + RTT_US / 1e6 + FLUSHED * 0.1
    assert row["recovery"] == pytest.approx(3.1 + repaired)


@pytest.mark.parametrize(
    ("silence", "flushed"), [(3 * SECOND, 0), (3 * SECOND, 3), (800_000, FLUSHED)]
)
def test_silence_within_a_round_trip_is_no_stall_without_a_flush(silence, flushed):
    """Nothing lost; no more losses than duplicate ACKs show; less than a second."""
    assert stalls(held_up(silence, flushed)) == []


def test_mobile_that_sends_other_traffic_was_not_interrupted():
    lines = held_up(3 * SECOND)
    at = max(p.us for p in lines if p.way == "up" and p.ack == acked(0, LAST_HEARD).ack) - SECOND
    other = Packet(T + RTT_US + SLOT_US * WINDOW * 2 + SECOND, "up", frozenset({"UDP"}), data=10)
    assert at > other.us
    assert stalls([*lines, replace(other, port=5000)]) == []
