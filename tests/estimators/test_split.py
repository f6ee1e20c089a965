"""Proxies between Gi and the mobile that split connections: their answers are not the mobile's.

The RTT on the access side is 600 ms (see `segments`); the proxy is 5 ms from Gi, retransmits
itself what is lost between it and the mobile, and forwards the handshake.
"""

from dataclasses import replace

import pytest

from tests.helpers.packet_script import Packet, tables
from tests.helpers.replies import MS
from tests.helpers.segments import RTT_US, SLOT_US, acked, opened, sent, user_seen_at

OF_ACCESS = (
    "rtt_access_min",
    "rtt_access_median",
    "lost_access",
    "lost_access_expected",
    "bottleneck",
    "limited_by",
    "goodput",
)
OF_INTERNET = ("retransmissions", "rtt_internet_min", "lost_internet")
SEGMENTS = 12


def transfer(port: int, answered_us: int, ttl: int = 60) -> list[Packet]:
    """A handshake by the mobile; each segment is acknowledged after so long; d5 comes twice."""
    lines = opened()
    at = 900 * MS
    for n in range(1, SEGMENTS + 1):
        lines += [sent(at, n), replace(acked(at + answered_us, n), ttl=ttl)]
        at += answered_us + 100 * MS
    lines += [sent(at, 5), replace(acked(at + answered_us, SEGMENTS), ttl=ttl)]
    begin = (port - 1024) * 30_000_000
    return [replace(p, us=p.us + begin, port=port) for p in lines]


def seen(count: int, answered_us: int, ttl: int = 60) -> dict[str, list[dict]]:
    lines = [p for c in range(count) for p in transfer(1024 + c, answered_us, ttl)]
    return tables([*lines, *user_seen_at(lines[-1].us + 60_000_000)])


def assert_split(rows: dict[str, list[dict]], count: int) -> None:
    for row in rows["flows"][:count]:
        assert row["split"] is True
        assert {row[name] for name in OF_ACCESS} == {None}
        assert None not in [row[name] for name in OF_INTERNET]
        assert row["setup_class"] == "optimal"
    assert rows["flows"][0]["rtt_access"] == pytest.approx(RTT_US / 1e6)  # the mobile's own
    assert rows["losses"] == rows["channel_rates"] == []
    assert {row["side"] for row in rows["rtt_samples"]} <= {"internet"}
    assert {row["needed"] for row in rows["retransmissions"]} == {None}
    assert {row["rtt_min"] for row in rows["links"]} == {None}


def test_data_acknowledged_far_sooner_than_handshakes_shows_a_proxy():
    assert_split(seen(3, 5 * MS), 3)


def test_acks_of_data_with_another_ttl_than_the_handshake_show_a_proxy():
    """57 hops are not left of 60: the mobile's own ACK of the handshake has 60."""
    assert_split(seen(1, 5 * MS, ttl=64), 1)


@pytest.mark.parametrize(
    ("count", "answered_us", "ttl"),
    [
        (3, RTT_US + SLOT_US, 60),
        (3, RTT_US // 3, 60),  # a handshake that waited for the radio
        (2, 5 * MS, 60),  # too few handshakes
        (1, RTT_US + SLOT_US, 61),  # another way
    ],
)
def test_ordinary_connection_is_not_split(count, answered_us, ttl):
    rows = seen(count, answered_us, ttl)
    for row in rows["flows"][:count]:
        assert row["split"] is False
        assert None not in [row[name] for name in ("lost_access", "rtt_access_min", "goodput")]
    assert {row["needed"] for row in rows["retransmissions"]} == {False}
