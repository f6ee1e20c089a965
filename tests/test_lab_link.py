"""The emulated link, in a clock of the test's own: which packets arrive, and when."""

import heapq
import itertools
from collections.abc import Callable
from random import Random

import pytest

from tests.programs.lab.link import Frame, Link, Path, Randoms
from tests.programs.lab.profile import Access, Handover, Internet, Preemption

SECOND_AT_8000 = bytes(1000)
"""A packet that takes a second at 8,000 bit/s."""


class World:
    """A clock that also records fates of packets: (what, number or packet, when)."""

    def __init__(self) -> None:
        self.due: list[tuple[float, int, Callable[[float], None]]] = []
        self.count = itertools.count()
        self.seen: list[tuple[str, int, float]] = []

    def at(self, due: float, call: Callable[[float], None]) -> None:
        heapq.heappush(self.due, (due, next(self.count), call))

    def run(self, until: float) -> None:
        while self.due and self.due[0][0] <= until:
            due, _, call = heapq.heappop(self.due)
            call(due)

    def delivered(self, frame: Frame, now: float) -> None:
        self.seen.append(("delivered", frame.number, round(now, 6)))

    def lost(self, frame: Frame, fate: str, now: float) -> None:
        self.seen.append((fate, frame.number, round(now, 6)))

    def arrived_at_gi(self, packet: bytes, now: float) -> None:
        self.seen.append(("at Gi", len(packet), round(now, 6)))

    def lost_up(self, packet: bytes, now: float) -> None:
        self.seen.append(("lost up", len(packet), round(now, 6)))

    def event(self, what: str, now: float) -> None:
        self.seen.append((what, 0, round(now, 6)))


def link(**access: object) -> tuple[World, Link]:
    world = World()
    known = {"rate": 8000, "uplink": 4000, "delay": 0.25}
    made = Link(Access.model_validate(known | access), world, Randoms(Random(1), Random(2)), world)
    made.begin(0)
    return world, made


def down(world: World, made: Link, *times: float) -> None:
    for number, ts in enumerate(times, start=1):
        world.at(ts, lambda now, number=number: made.down(Frame(number, SECOND_AT_8000, now)))


def up(world: World, made: Link, packet: bytes, ts: float) -> None:
    world.at(ts, lambda now: made.up(packet, now))


def test_link_serves_one_packet_after_the_other() -> None:
    world, made = link()
    down(world, made, 0, 0.5, 10)
    world.run(20)
    assert world.seen == [
        ("delivered", 1, 1.25),
        ("delivered", 2, 2.25),
        ("delivered", 3, 11.25),
    ]


def test_uplink_has_its_own_rate() -> None:
    world, made = link()
    up(world, made, bytes(100), 1)  # 0.2 s at 4,000 bit/s
    world.run(20)
    assert world.seen == [("at Gi", 100, 1.45)]


def test_idle_link_is_set_up_first() -> None:
    world, made = link(setup=0.5)
    down(world, made, 0, 1, 10)
    world.run(20)
    assert [ts for _, _, ts in world.seen] == [1.75, 2.75, 11.75]


def test_full_queue_drops_new_packets() -> None:
    world, made = link(queue=2000)  # one is being sent, two wait
    down(world, made, 0, 0.1, 0.2, 0.3)
    world.run(20)
    assert world.seen[0] == ("overflow", 4, 0.3)
    assert [number for what, number, _ in world.seen if what == "delivered"] == [1, 2, 3]


def test_packet_that_waits_too_long_is_dropped() -> None:
    world, made = link(lifetime=1.5)
    down(world, made, 0, 0.1, 0.2)
    world.run(20)  # the third would begin after 1.8 s
    assert world.seen == [("delivered", 1, 1.25), ("expired", 3, 2.0), ("delivered", 2, 2.25)]


CALLS = Preemption(every=10, seconds=3, flush=1500, uplink_lifetime=2)


def test_calls_flush_the_queues_head_and_the_mobile_ends_the_silence() -> None:
    world, made = link(preemption=CALLS)
    down(world, made, 9.5, 9.6, 9.7, 9.8)
    up(world, made, bytes(100), 11.5)  # waits for 1.5 s
    world.run(16)
    assert world.seen == [
        ("preempted", 0, 10),
        ("flushed", 1, 10),  # half on the air
        ("flushed", 2, 10),
        ("free", 0, 13),
        ("resumed_up", 0, 13),
        ("at Gi", 100, 13.45),
        ("delivered", 3, 14.25),
        ("delivered", 4, 15.25),
    ]


def test_mobile_drops_what_it_holds_too_long_and_the_server_ends_the_silence() -> None:
    world, made = link(preemption=CALLS)
    down(world, made, 9.5, 9.6, 9.7, 15)
    up(world, made, bytes(100), 10.5)
    world.run(18)
    assert world.seen == [
        ("preempted", 0, 10),
        ("flushed", 1, 10),
        ("flushed", 2, 10),
        ("free", 0, 13),
        ("lost up", 100, 13),
        ("resumed_down", 0, 15),
        ("delivered", 3, 16.25),
        ("delivered", 4, 17.25),
    ]


def test_calls_recur() -> None:
    world, _ = link(preemption=CALLS)
    world.run(30)
    assert [ts for what, _, ts in world.seen if what == "preempted"] == [10, 23]


def test_handover_slows_the_link_and_loses_nothing() -> None:
    world, made = link(handover=Handover(at=[5], seconds=3, rate=0.5))
    down(world, made, 4.5, 4.6, 4.7)
    world.run(20)
    assert world.seen == [
        ("handover", 0, 5),
        ("delivered", 1, 5.75),
        ("delivered", 2, 7.75),  # twice the time
        ("delivered", 3, 9.75),
    ]


def test_losses_on_the_air_have_the_given_probability() -> None:
    world, made = link(rate=8e6, loss=0.1)
    down(world, made, *(0.01 * k for k in range(10_000)))
    world.run(1000)
    lost = sum(what == "radio" for what, _, _ in world.seen)
    assert lost == pytest.approx(1000, abs=120)  # four standard deviations
    assert len(world.seen) == 10_000


def test_retransmitted_radio_blocks_delay_later_packets_and_keep_the_order() -> None:
    world, made = link(rate=8e6, repeats=0.3, repeat_delay=0.5)
    down(world, made, *(0.01 * k for k in range(1000)))
    world.run(1000)
    assert [number for _, number, _ in world.seen] == list(range(1, 1001))
    times = [ts for _, _, ts in world.seen]
    assert times == sorted(times)
    assert max(ts - 0.01 * k for k, ts in enumerate(times)) > 0.75


def test_rate_of_a_shared_link_changes() -> None:
    sharing = {"rates": [8000, 80000], "seconds": 50}
    world, made = link(sharing=sharing)
    down(world, made, *(10 * k for k in range(100)))
    world.run(2000)
    delays = {round(ts - 10 * k, 2) for k, (_, _, ts) in enumerate(world.seen)}
    assert delays == {0.35, 1.25}


def test_rates_of_a_shared_link_depend_only_on_the_seed_for_others() -> None:
    sharing = {"rates": [8000, 80000], "seconds": 50}
    rates = []
    for own in (1, 7):
        world = World()
        access = Access.model_validate(
            {"rate": 8000, "uplink": 4000, "delay": 0.25, "loss": 0.5, "sharing": sharing}
        )
        made = Link(access, world, Randoms(Random(own), Random(2)), world)
        made.begin(0)
        down(world, made, *range(100))
        seen = []
        for until in range(0, 1000, 10):
            world.run(until)
            seen.append(made.rate)
        rates.append(seen)
    assert rates[0] == rates[1]
    assert set(rates[0]) == {8000, 80000}


def test_internet_path_keeps_the_order_and_loses_the_given_share() -> None:
    world = World()
    path = Path(Internet(delay=0.1, jitter=0.05, loss=0.1), world, Random(1))
    arrived: list[tuple[int, float]] = []
    sent = [
        path.send(0.01 * k, True, lambda now, k=k: arrived.append((k, now))) for k in range(1000)
    ]
    world.run(100)
    assert [k for k, _ in arrived] == [k for k, ok in enumerate(sent) if ok]
    assert 1000 - sum(sent) == pytest.approx(100, abs=38)
    assert all(now - 0.01 * k >= 0.1 for k, now in arrived)


def test_packets_that_take_a_detour_are_overtaken() -> None:
    world = World()
    path = Path(Internet(delay=0.1, overtaken=0.1, detour=0.035), world, Random(1))
    arrived: list[tuple[int, float]] = []
    for k in range(1000):
        path.send(0.01 * k, True, lambda now, k=k: arrived.append((k, now)))
    world.run(100)
    late = [k for k, now in arrived if now - 0.01 * k > 0.11]
    assert len(late) == pytest.approx(100, abs=38)
    assert [k for k, _ in arrived if k not in late] == [k for k in range(1000) if k not in late]
    assert [k for k, _ in arrived] != list(range(1000))
