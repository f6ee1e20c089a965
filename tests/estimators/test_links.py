"""links: each user's access link, hour by hour.

The handshake's round trip counts, too: 600 ms, as its packets are small.
"""

from dataclasses import replace

import pytest

from tests.helpers.packet_script import Packet, tables
from tests.helpers.segments import DATA, RTT_US, SLOT_US, acked, opened, sent

HOUR = 3_600_000_000
IP_LEN = DATA + 40


def busy_link(packets: int, at: int, first: int) -> list[Packet]:
    """Segments sent at once on a link that takes SLOT_US for each."""
    lines = [sent(at + k, first + k) for k in range(packets)]
    return lines + [acked(at + RTT_US + SLOT_US * (k + 1), first + k) for k in range(packets)]


def test_rate_is_measured_while_the_link_is_busy():
    """1040 bytes of IP in 100 ms; the longest round trip is the last one's."""
    (row,) = tables([*opened(), *busy_link(40, 1_000_000, 1)])["links"]
    assert row["rate"] == pytest.approx(8 * IP_LEN / 0.1, rel=1e-3)
    assert row["rtt_min"] == pytest.approx(RTT_US / 1e6)
    assert row["rtt_max"] == pytest.approx((RTT_US + 40 * SLOT_US) / 1e6, abs=1e-4)
    assert row["rtt_samples"] == 1 + 40


def test_rate_includes_quic_packets():
    """With each segment the link carries three packets of UDP."""
    lines = [*opened(), *busy_link(40, 1_000_000, 1)]
    udp = frozenset({"UDP"})
    quic = [
        Packet(p.us - 1, "down", udp, data=DATA, port=5000, server_port=443)
        for p in lines
        if p.way == "down" and p.data
        for _ in range(3)
    ]
    (row,) = tables([*lines, *quic])["links"]
    assert row["rate"] == pytest.approx(8 * 4 * IP_LEN / 0.1, rel=1e-3)


def test_each_hour_has_its_own_row():
    """The script begins at noon: half an hour later it is still noon, an hour later it is one."""
    lines = [*opened(), *busy_link(3, 1_000_000, 1)]
    lines += [p.later(HOUR) for p in busy_link(2, 0, 4)]
    lines.sort(key=lambda p: p.us)
    rows = tables(lines)["links"]
    assert [(r["hour"].hour, r["rtt_samples"]) for r in rows] == [(12, 1 + 3), (13, 2)]


def test_each_user_has_their_own_row():
    of_anna = [*opened(), *busy_link(3, 1_000_000, 1)]
    of_bert = [replace(p, user="bert") for p in [*opened(), *busy_link(2, 1_000_000, 1)]]
    rows = tables(sorted([*of_anna, *of_bert], key=lambda p: p.us))["links"]
    assert sorted((r["user"], r["rtt_samples"]) for r in rows) == [("anna", 1 + 3), ("bert", 1 + 2)]


def test_median_is_that_of_the_round_trips():
    """One at a time on the link, two take 0.7 s and one takes 2 s."""
    lines = opened()
    for k, rtt in enumerate((RTT_US + SLOT_US, 2_000_000, RTT_US + SLOT_US)):
        at = 1_000_000 + 5_000_000 * k
        lines += [sent(at, k + 1), acked(at + rtt, k + 1)]
    (row,) = tables(lines)["links"]
    assert row["rtt_median"] == pytest.approx(0.7)
    assert row["rtt_max"] == pytest.approx(2)


def test_longest_round_trip_may_come_from_a_sack_block():
    """d2 is lost; d3 comes after two seconds, and the mobile reports it."""
    lines = [*opened(sack=True), sent(1_000_000, 1), acked(1_700_000, 1)]
    lines += [sent(2_000_000, 2), sent(2_000_001, 3), acked(4_000_001, 1, (3, 3))]
    (row,) = tables(lines)["links"]
    assert row["rtt_max"] == pytest.approx(2)


def test_rate_and_queue_are_null_where_the_link_is_never_busy():
    """One segment at a time never keeps the link busy, and nothing is lost."""
    (row,) = tables([*opened(), sent(1_000_000, 1), acked(1_700_000, 1)])["links"]
    assert [row[c] for c in ("rate", "queue_bytes", "queue_s", "lost_with_room")] == [None] * 4


def test_user_without_data_has_the_handshakes_round_trip():
    (row,) = tables(opened())["links"]
    assert (row["rtt_samples"], row["rtt_median"]) == (1, pytest.approx(RTT_US / 1e6))
