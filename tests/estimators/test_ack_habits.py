"""The ACK habits of mobiles and radio links cause no losses, retransmissions or odd figures.

d1 ... d48 leave the access link 100 ms apart, 600 ms after Gi at the earliest (see `segments`); a
request before them, and the ACK of the last after them, is as usual.
"""

from collections.abc import Callable

import pytest

from tests.helpers.packet_script import Packet, tables
from tests.helpers.replies import ANSWER_US, BEGIN, MS
from tests.helpers.segments import RTT_US, SLOT_US, acked, opened, sent, user_seen_at

COUNT = 48
WINDOW = 12

Habit = Callable[[int], int | None]
"""By how much the ACK of a segment waits (µs), or None where none comes of it."""


def every(segments: int, wait_us: int = 0) -> Habit:
    """Every so many segments an ACK, which waits so long; stretch ACKs (RFC 2525, 2.13)."""
    return lambda n: wait_us if n % segments == 0 or n == COUNT else None


HABITS: dict[str, Habit] = {
    "each": every(1),
    "every second": every(2),
    "every eighth": every(8),
    "with a window only": every(WINDOW),
    # delayed by a timer where none follows (RFC 1122, 4.2.3.2: 500 ms; others 200 and 40 ms)
    "200 ms late": every(1, 200 * MS),
    "500 ms late": every(1, 500 * MS),
    "40 ms late": every(2, 40 * MS),
    # two at once at first, then each second, as Linux out of its quick ACKs
    "quick, then slow": lambda n: 0 if n < 8 or n % 2 == 0 or n == COUNT else None,
    # a radio uplink that keeps the latest ACK of those that wait for a grant
    "one a grant": lambda n: 0 if n % 5 == 0 or n % 7 == 0 or n == COUNT else None,
    # ACKs that wait for a grant come in bursts: of 4 segments at the time of the last
    "bundled": lambda n: (-n % 4) * SLOT_US,
}


def transfer(habit: Habit, sack: bool) -> list[Packet]:
    """The server keeps a window of segments in flight."""
    acks: list[Packet] = []
    segments: list[Packet] = []
    free = BEGIN
    for n in range(1, COUNT + 1):
        at = BEGIN + n * MS
        if n > WINDOW:
            opens = (p.us for p in acks if p.ack >= 500 + 1000 * (n - WINDOW))
            at = max(min(opens) + ANSWER_US, segments[-1].us + MS)
        segments.append(sent(at, n))
        free = max(free, at + RTT_US) + SLOT_US
        wait = habit(n)
        if wait is not None:
            acks.append(acked(free + wait, n))
    packets = sorted([*segments, *acks], key=lambda p: p.us)
    return [*opened(sack), *packets, *user_seen_at(packets[-1].us + 60_000_000)]


@pytest.mark.parametrize("sack", [False, True], ids=["", "sack"])
@pytest.mark.parametrize("habit", HABITS.values(), ids=HABITS.keys())
def test_ack_habits_cause_no_loss_retransmission_or_odd_rtt(habit, sack):
    rows = tables(transfer(habit, sack))
    flow = rows["flows"][0]
    assert rows["losses"] == rows["retransmissions"] == []
    assert (flow["lost_access"], flow["lost_internet"], flow["lost_access_expected"]) == (0, 0, 0)
    assert (flow["retransmissions"], flow["rto_expiries"]) == (0, 0)
    assert flow["delay_spikes"] in (0, None)
    assert flow["rtt_access_min"] is None or flow["rtt_access_min"] >= RTT_US / 1e6
    # the first ACK is late by four segments at most, which the time of the transfer lacks
    shortest = (COUNT - 5) * SLOT_US
    assert flow["goodput"] is None or flow["goodput"] <= 8e6 * 1000 * COUNT / shortest
    for period in rows["channel_rates"]:
        assert period["rate"] == pytest.approx(8e6 * 1040 / SLOT_US, rel=0.1)


@pytest.mark.parametrize("seen", [1, 2], ids=["only the last", "two"])
def test_few_duplicate_acks_of_a_thinning_radio_still_show_the_one_loss(seen):
    """
    Gi     | d1 ... d7                          d2'
    mobile |          a1  (a1 a1 a1 a1) a1             a7        those in brackets were dropped
    """
    lines = [*opened(True), *(sent(BEGIN + n * MS, n) for n in range(1, 8))]
    lines += [acked(BEGIN + RTT_US + SLOT_US, 1)]
    last = BEGIN + RTT_US + 6 * SLOT_US
    lines += [acked(last - k * SLOT_US, 1, (3, 7 - k)) for k in reversed(range(seen))]
    lines += [sent(last + ANSWER_US, 2), acked(last + ANSWER_US + RTT_US, 7)]
    rows = tables([*lines, *user_seen_at(90_000_000)])
    assert [row["seq"] for row in rows["losses"]] == [1500]
    assert [row["needed"] for row in rows["retransmissions"]] == [True]
