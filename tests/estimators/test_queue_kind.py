"""The kind of an access link's queue, from what it does."""

from dataclasses import replace

import pytest

from tests.helpers.packet_script import Packet, tables
from tests.helpers.queue_traffic import BURST, PACED, ROOM, paced, rounds
from tests.helpers.segments import RTT_US, SLOT_US, acked, opened, sent

BURSTS = 24
OTHER_PORT = 2000


def kind(lines: list[Packet]) -> str | None:
    (row,) = tables(sorted(lines, key=lambda p: p.us))["links"]
    return row["queue_kind"]


def test_queue_that_drops_what_has_no_room_is_a_fifo():
    assert kind(rounds(ROOM)[0]) == "fifo"


def dropped_one_of_each_burst(places: list[int]) -> list[Packet]:
    """Bursts into an empty queue, of which it drops one packet and takes those after it.

    Gi     | d1 d2 d3 d4 d5 ...                           d4'
    mobile |                    a1 a2 a3 a3 (5) a3 (5-6)       a8
    """
    lines, at, number = [*opened(sack=True), *paced()[len(opened()) :]], 12_000_000, PACED + 1
    for n in range(BURSTS):
        dropped = number + places[n % len(places)]
        burst = range(number, number + BURST)
        lines += [sent(at + i, segment) for i, segment in enumerate(burst)]
        due = at + RTT_US
        for segment in burst:
            if segment == dropped:
                continue
            due += SLOT_US
            upto = segment if segment < dropped else dropped - 1
            blocks = [(dropped + 1, segment)] if segment > dropped else []
            lines.append(acked(due, upto, *blocks))
        lines.append(sent(at + 3_000_000, dropped))
        lines.append(acked(at + 3_000_000 + RTT_US + SLOT_US, number + BURST - 1))
        at += 5_000_000
        number += BURST
    return lines


def test_queue_that_drops_waiting_packets_though_it_has_room_drops_early():
    assert kind(dropped_one_of_each_burst([3, 4, 5, 6])) == "early_drop"


def test_losses_by_the_radio_show_no_kind_of_queue():
    """They hit packets that find an empty queue as often."""
    assert kind(dropped_one_of_each_burst([0, 1, 2, 3, 4, 5, 6])) is None


def beside_a_download(waits: bool) -> list[Packet]:
    """While segments of a download wait, one of another connection comes, which waits for them or
    not. The mobile acknowledges every second segment of the download at once."""
    lines, at, number = paced(), 12_000_000, PACED + 1
    other = [replace(p, port=OTHER_PORT) for p in opened()]
    lines += [p.later(10_000_000) for p in other]
    for n in range(1, BURSTS + 1):
        lines += [sent(at + i, number + i) for i in range(BURST)]
        lines.append(replace(sent(at + 100, n), port=OTHER_PORT))
        slots = list(range(1, BURST + 2))
        own = slots.pop() if waits else slots.pop(0)
        for i in range(1, BURST, 2):
            lines.append(acked(at + RTT_US + SLOT_US * slots[i], number + i))
        lines.append(replace(acked(at + RTT_US + SLOT_US * own, n), port=OTHER_PORT))
        at += 5_000_000
        number += BURST
    return lines


@pytest.mark.parametrize(("waits", "expected"), [(True, "fifo"), (False, "fair")])
def test_packets_of_several_connections_keep_their_order_or_do_not(waits, expected):
    assert kind(beside_a_download(waits)) == expected
