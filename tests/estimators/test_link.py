"""The access link's clock, and the queue inferred from it, on links that are simulated packet by
packet."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.estimators.loss import link, queue
from spark_jobs.estimators.loss.link import PATH, Traffic
from spark_jobs.estimators.loss.observation import TRANSMISSION

BASE, PACE = 50_000.0, 2.0


def path(**known: float) -> np.ndarray:
    """PATH[1] of a user of whom so much is known."""
    out = np.zeros(1, PATH)
    for name, value in {"base_rtt": BASE, "pace": PACE, "slack": np.inf, **known}.items():
        out[name] = value
    return out


def packets(ts, size, lost=None) -> Traffic:
    n = len(ts)
    return Traffic(
        np.asarray(ts, np.int64),
        np.asarray(size, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, bool) if lost is None else np.asarray(lost),
        np.zeros(n),
        np.zeros(n),
    )


def full_queue(limit: int, pace: float, seconds: float) -> Traffic:
    """What a FIFO that holds so many bytes does to packets that come, in bursts, faster than it
    sends them; it rests between the busy times."""
    random = np.random.default_rng(2004)
    ts, size, lost = [], [], []
    free = now = 0.0
    while now < seconds * 1e6:
        rests = random.random() < 0.01
        now += random.exponential(3e6 if rests else 6 * 1500 * pace * 0.9)
        for _ in range(random.integers(1, 12)):
            length = 1500 if random.random() < 0.9 else int(random.integers(40, 1500))
            lost.append(max(free - now, 0) / pace + length > limit)
            ts.append(now)
            size.append(length)
            if not lost[-1]:
                free = max(free, now) + length * pace
    return packets(np.array(ts), size, lost)


def test_clock_of_an_idle_and_of_a_busy_link():
    sent = packets([0, 1000, 1_000_000], [1500, 500, 100])
    link.replay(sent, path()[0])
    assert sent.clock.tolist() == [0, BASE + 3000, BASE + 4000]
    assert sent.backlog.tolist() == [1500, 1000 + 500, 100]


def test_arrived_packet_had_room_in_the_queue_and_a_lost_one_had_none():
    known = path(limit=3000, spread=100, random_loss=0.001)[0]
    assert link.clock_after_arrival(BASE + 5000, 0, 1500, 0, known) == BASE + 3000 + 3000
    assert link.clock_after_loss(BASE + 2900, 0, 1500, known) == pytest.approx(BASE + 3000, abs=100)
    assert link.clock_after_loss(0.0, 0, 1500, known) == pytest.approx(
        BASE + 3000, rel=0.01
    )  # the radio's


def test_an_unambiguous_ack_corrects_the_clock():
    known = path(slack=1000)[0]
    assert link.clock_after_arrival(BASE + 9000, 0, 500, 40_000, known) == 40_000
    assert link.clock_after_arrival(0.0, 0, 500, 90_000, known) == 89_000


@settings(deadline=None)  # the first call compiles
@given(
    gaps=st.lists(st.integers(0, 20_000), min_size=2, max_size=60),
    sizes=st.lists(st.integers(40, 1500), min_size=60, max_size=60),
    owners=st.lists(st.booleans(), min_size=60, max_size=60),
    limit=st.sampled_from([0, 4000, 8000]),
)
def test_clock_of_one_connection_equals_the_clock_of_all_the_users_packets(
    gaps, sizes, owners, limit
):
    n = len(gaps)
    known = path(limit=limit, spread=200, random_loss=0.01)[0]
    sent = packets(np.cumsum(gaps), sizes[:n])
    link.replay(sent, known)
    transmissions = np.zeros(sum(owners[:n]), TRANSMISSION)
    transmissions["packet"] = np.flatnonzero(owners[:n])
    link.set_link_steps(transmissions, sent, known)
    clock = 0.0
    for k, place in enumerate(transmissions["packet"]):
        recomputed = link.clock_on_entry(link.start_clock(transmissions[k]), transmissions[k])
        assert recomputed == pytest.approx(sent.clock[place])
        clock = link.clock_on_entry(clock, transmissions[k]) if k else recomputed
        assert clock == pytest.approx(sent.clock[place])
        clock = link.clock_after_arrival(clock, sent.ts[place], sent.size[place], 0, known)


@pytest.mark.parametrize("supposed", [0.9, 1.0, 1.2])
def test_pace_and_limit_of_the_queue_are_inferred_from_losses(supposed):
    sent = full_queue(40_000, PACE, 120)
    assert sent.lost.sum() > 100
    known = path(pace=PACE * supposed, max_rtt=BASE + 40_000 * PACE)
    assert queue.pace_between_losses(sent, known[0]) == pytest.approx(PACE, rel=0.02)
    queue.fit(known, sent, sent.size > 0)
    assert known["limit"][0] == pytest.approx(40_000, rel=0.05)
    assert known["spread"][0] < 1500
    assert known["random_loss"][0] < 0.01


def test_few_losses_far_apart_give_no_pace():
    sent = packets([0, 10_000_000, 20_000_000], [1500] * 3, [True, False, True])
    assert queue.pace_between_losses(sent, path(max_rtt=2 * BASE)[0]) == 0
