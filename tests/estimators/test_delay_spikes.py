"""delay_spikes: RTTs on the access side that are of a sudden far above the running mean.

Segments of 1000 bytes are sent one at a time, each with a round trip of 700 ms, a second apart, if
not said otherwise; `maybe_delayed` ACKs may wait for half a second, so what counts is above that.
"""

from dataclasses import replace

import pytest

from tests.helpers.packet_script import Packet, tables
from tests.helpers.segments import RTT_US, SLOT_US, acked, opened, sent, user_seen_at

SECOND = 1_000_000
USUAL = RTT_US + SLOT_US


def spikes(rtt_samples: dict[int, int], count: int = 40) -> int:
    """Of segments with the usual round trip but for some by number (µs)."""
    lines = opened()
    for k in range(count):
        at = (k + 1) * 10 * SECOND
        lines += [sent(at, k + 1), acked(at + rtt_samples.get(k, USUAL), k + 1)]
    return tables(lines)["flows"][0]["delay_spikes"]


def one(at: int, number: int, rtt: int = USUAL) -> list[Packet]:
    return [sent(at, number), acked(at + rtt, number)]


def on_another(packet: Packet) -> Packet:
    return replace(packet, port=2000, server="ftp")


def test_steady_round_trips_have_no_spike():
    assert spikes({}) == 0


def test_one_much_longer_round_trip_is_one_spike():
    assert spikes({20: 3 * SECOND}) == 1


def test_long_round_trips_in_a_row_are_one_spike_and_those_apart_are_several():
    assert spikes({20: 3 * SECOND, 21: 4 * SECOND, 22: 4 * SECOND}) == 1
    assert spikes({10: 3 * SECOND, 30: 3 * SECOND}) == 2


@pytest.mark.parametrize("rtt", [2 * USUAL - 50_000, USUAL + 490_000])
def test_round_trip_below_twice_the_usual_is_no_spike(rtt):
    assert spikes({20: rtt}) == 0


def test_delayed_ack_is_no_spike():
    """On a fast path half a second is many round trips, but an ACK of one segment may wait."""
    fast = dict.fromkeys(range(40), 50_000)
    assert spikes(fast | {20: 540_000}) == 0
    assert spikes(fast | {20: 700_000}) == 1


def test_round_trips_that_always_vary_have_no_spike():
    """Every other one takes three times as long."""
    assert spikes(dict.fromkeys(range(1, 40, 2), 3 * USUAL)) <= 1


def test_queue_of_the_users_own_data_is_no_spike():
    """Segments one at a time, then 30 at once: the last takes 3.6 s, at the link's pace."""
    lines = opened()
    for k in range(10):
        at = (k + 1) * 10 * SECOND
        lines += [sent(at, k + 1), acked(at + USUAL, k + 1)]
    for turn in range(3):
        at, first = (200 + 100 * turn) * SECOND, 11 + 30 * turn
        lines += [sent(at, first + k) for k in range(30)]
        lines += [acked(at + RTT_US + SLOT_US * (k + 1), first + k) for k in range(30)]
    assert tables(lines)["flows"][0]["delay_spikes"] == 0


def test_queue_of_the_users_other_connection_is_no_spike():
    """Another's 30 segments pass just before: those wait, and no handover delayed them."""
    lines = opened()
    lines += [p for k in range(10) for p in one(10 * SECOND * (k + 1), k + 1)]
    other = []
    for turn in range(3):
        at = (200 + 100 * turn) * SECOND
        other += [sent(at, 1 + 30 * turn + k) for k in range(30)]
        other += [acked(at + RTT_US + SLOT_US * (k + 1), 1 + 30 * turn + k) for k in range(30)]
        lines += [sent(at + 1, 11 + turn), acked(at + 1 + RTT_US + 31 * SLOT_US, 11 + turn)]
    lines += [on_another(p) for p in [*opened(), *other]]
    rows = tables(sorted(lines, key=lambda p: p.us))["flows"]
    assert [r["delay_spikes"] for r in rows] == [0, 0]


def test_spike_of_two_connections_counts_once_for_the_user():
    """Both are held up by the same handover: it begins with the first that was sent."""
    lines = [*opened(), *(on_another(p) for p in opened())]
    for k in range(20):
        at, rtt = 10 * SECOND * (k + 1), 5 * SECOND if k == 15 else USUAL
        lines += [*one(at, k + 1, rtt), *(on_another(p) for p in one(at + 1000, k + 1, rtt))]
    rows = tables(sorted(lines, key=lambda p: p.us))["flows"]
    assert [r["delay_spikes"] for r in rows] == [1, 0]


def test_retransmitted_data_gives_no_spike():
    """Karn: the round trip of data sent twice is not known."""
    lines = [p for k in range(20) for p in one(10 * SECOND * (k + 1), k + 1)]
    lines += [sent(300 * SECOND, 21), sent(303 * SECOND, 21), acked(304 * SECOND, 21)]
    assert tables([*opened(), *lines, *user_seen_at(320 * SECOND)])["flows"][0]["delay_spikes"] == 0


def test_connection_without_a_round_trip_has_null():
    assert tables(opened()[:1])["flows"][0]["delay_spikes"] is None
