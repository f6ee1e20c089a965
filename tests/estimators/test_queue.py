"""The access link's queue, inferred from losses."""

from dataclasses import replace

import numpy as np
import pytest

from spark_jobs.estimators.loss import link, queue
from spark_jobs.estimators.loss.link import PATH
from tests.helpers.packet_script import Packet, tables
from tests.helpers.queue_traffic import BURST, PACED, ROOM, ROUNDS, paced, rounds
from tests.helpers.segments import RTT_US, SLOT_US, acked, opened, sent


def test_full_queue_loses_the_last_segments_of_a_capture():
    lines, at, number = rounds(ROOM)
    burst = [sent(at + 1000 * i, number + i) for i in range(BURST)]
    lines += burst
    rows = {r["frame"]: r for r in tables(lines)["losses"]}
    last_rows = [rows.get(lines.index(packet), {"probability": 0}) for packet in burst]
    assert [row["probability"] > 0.5 for row in last_rows] == [i >= ROOM for i in range(BURST)]
    assert {row["evidence"] for row in last_rows[ROOM:]} == {"undecided"}
    decided = [r for r in rows.values() if r["evidence"] != "undecided"]
    assert len(decided) == ROUNDS * (BURST - ROOM)


def test_queue_limit_is_inferred_where_all_losses_are_proven():
    """What each burst loses is proven by a later SACK block: no other loss depends on the
    queue's limit.

    Gi     | d1 ... d5 d6 d7 d8                 d9                d6' d7' d8'
    mobile |                     a1 a2 a3 a4 a5     a5 (d9)                   ... a9
    """
    lines = [*opened(sack=True), *paced()[len(opened()) :]]
    at, number, lost = 12_000_000, PACED + 1, range(ROOM, BURST)
    for _ in range(ROUNDS):
        last = number + BURST
        lines += [sent(at + 1000 * i, number + i) for i in range(BURST)]
        lines += [acked(at + RTT_US + SLOT_US * (i + 1), number + i) for i in range(ROOM)]
        lines.append(sent(at + 3_000_000, last))
        lines.append(acked(at + 4_000_000, number + ROOM - 1, (last, last)))
        for i in lost:
            lines.append(sent(at + 1_000_000 * i, number + i))
            upto = last if i == lost[-1] else number + i
            lines.append(acked(at + 1_000_000 * i + RTT_US + SLOT_US, upto, (last, last)))
        at += 12_000_000
        number = last + 1
    rows = tables(lines)
    assert {row["evidence"] for row in rows["losses"]} == {"order"}
    (row,) = rows["links"]
    assert row["queue_bytes"] == pytest.approx((ROOM + 0.5) * 1040, abs=520)


QUIC = frozenset({"UDP"})
IN_FRONT = 3


def burst_after_quic(at: int, number: int) -> tuple[list[Packet], list[Packet]]:
    """(QUIC's packets, and those of TCP after them) of a burst of which the queue takes ROOM."""
    udp = Packet(at, "down", QUIC, data=1000, port=5000, server_port=443)
    quic = [replace(udp, us=at + 1000 * i) for i in range(IN_FRONT)]
    return quic, [sent(at + 1000 * (IN_FRONT + i), number + i) for i in range(BURST - IN_FRONT)]


def test_quic_packets_fill_the_queue_too():
    """Of each burst QUIC's packets find the room that is missing for TCP's."""
    lines, at, number = paced(), 12_000_000, PACED + 1
    for _ in range(2 * ROUNDS):
        quic, tcp = burst_after_quic(at, number)
        room = ROOM - IN_FRONT
        lines += [*quic, *tcp]
        for i in range(len(tcp)):
            if i >= room:
                at += 5_000_000
                lines.append(replace(tcp[i], us=at))
            late = SLOT_US * (IN_FRONT + i + 1) if i < room else SLOT_US
            lines.append(acked(at + RTT_US + late, number + i))
        at += 5_000_000
        number += len(tcp)
    quic, burst = burst_after_quic(at + 15_000_000, number)
    lines += [*quic, *burst]
    lines.sort(key=lambda p: p.us)
    rows = {r["frame"]: r["probability"] for r in tables(lines)["losses"]}
    last_rows = [rows.get(lines.index(packet), 0) > 0.5 for packet in burst]
    assert last_rows == [i >= ROOM - IN_FRONT for i in range(len(burst))]


def test_random_losses_give_no_queue_limit():
    lines, at, number = paced(), 12_000_000, PACED + 1
    for i in range(40):
        n, retransmission = number + i, i % 4 == 0
        lines.append(sent(at, n))
        if retransmission:
            at += 5_000_000
            lines.append(sent(at, n))
        lines.append(acked(at + RTT_US + SLOT_US, n))
        at += 2_000_000
    burst = [sent(at + 1000 * i, number + 40 + i) for i in range(BURST)]
    lines += burst
    rows = {r["frame"]: r["probability"] for r in tables(lines)["losses"]}
    shares = [rows[lines.index(packet)] for packet in burst]
    assert shares == pytest.approx([10 / (PACED + 50)] * BURST, rel=0.2)


@pytest.mark.parametrize("size", [576, 1500])
def test_limit_and_random_loss_of_a_queue_are_fitted(size):
    random = np.random.default_rng(2004)
    waiting = random.integers(1, 40, 4000) * float(size) + random.normal(0, size / 4, 4000)
    lost = (waiting > 30.5 * size) | (random.random(4000) < 0.01)
    path = np.zeros(1, PATH)
    assert queue.set_limit(path[0], waiting, lost)
    assert path["limit"][0] == pytest.approx(30.5 * size, abs=size / 2)
    assert path["spread"][0] < size
    assert path["random_loss"][0] == pytest.approx(0.01, abs=0.005)
    assert link.loss_probability(20.0 * size, path[0]) < 0.02
    assert link.loss_probability(40.0 * size, path[0]) > 0.95


def test_no_limit_where_losses_do_not_depend_on_the_queue():
    random = np.random.default_rng(2004)
    waiting, lost = random.random(4000) * 16_000, random.random(4000) < 0.05
    assert not queue.set_limit(np.zeros(1, PATH)[0], waiting, lost)


def test_no_limit_where_nothing_arrived():
    waiting = np.linspace(1000, 16_000, 20)
    assert not queue.set_limit(np.zeros(1, PATH)[0], waiting, np.ones(20, bool))


def test_late_acks_correct_the_clock_where_overflows_are_rare():
    """The measured pace is 1 % too fast. Up to a minute of full load lies between two
    overflows, while 30 packets wait. A clock that nothing corrects says that they have left."""
    size, pace, limit, base_rtt, jitter = 1000, 20.0, 60_000, 100_000, 5_000.0
    random = np.random.default_rng(2004)
    ts, lost, ack_ts, free_at = [], [], [], 0.0
    for _ in range(20):
        now = max(free_at - 30 * size * pace, 0.0)
        arrivals = [now + n * size * pace for n in range(random.integers(100, 3000))]
        first = [now] * (0 if ts else 30)
        for at in [*first, *arrivals, *[arrivals[-1] + 1] * 40]:
            free_at = max(free_at, at)
            is_lost = (free_at - at) / pace + size > limit
            free_at += 0 if is_lost else size * pace
            ts.append(int(at))
            lost.append(is_lost)
            ack_ts.append(0 if is_lost else int(free_at + base_rtt + random.exponential(jitter)))
    n, path = len(ts), np.zeros(1, PATH)
    path["base_rtt"], path["pace"], path["jitter"] = base_rtt, 0.99 * pace, jitter
    path["max_rtt"] = base_rtt + limit * pace
    ack_ts = np.maximum.accumulate(ack_ts) * ~np.array(lost)
    traffic = link.Traffic(
        np.array(ts), np.full(n, size), ack_ts, np.array(lost), np.zeros(n), np.zeros(n)
    )
    queue.fit(path, traffic, np.ones(n, bool))
    slack = path["slack"][0]
    assert np.isfinite(slack)
    assert path["limit"][0] == pytest.approx(limit, abs=slack / pace)
