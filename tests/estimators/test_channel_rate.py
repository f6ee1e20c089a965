"""The channel rate, from exchanges over a link of known rate that the reader can work out."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.helpers.packet_script import Packet, tables

RATE = 40_000
"""The link's, bit/s at the IP layer."""
BYTE_US = 8_000_000 // RATE
DATA, HEADER = 960, 40
DOWN_US, UP_US = 300_000, 300_000


def download(
    segments: int,
    ahead: int = 8,
    rate_us_per_byte: int = BYTE_US,
    start_us: int = 0,
    lost: int | None = None,
    late_us: Callable[[int], int] = lambda i: 0,
) -> list[Packet]:
    """A download over a link that sends in order and never idles: the server keeps `ahead`
    segments in flight and the mobile acknowledges each as it arrives; the ACKs keep their order,
    and that of segment i is late by late_us(i) or more.

        Gi     | SYN ... d0 d1 .. d7        d8      d9     each ACK lets another segment go
        mobile |                      a0 a1 a2 ...         DATA + HEADER bytes apart on the link
    """
    lines = [
        Packet(start_us, "up", frozenset({"SYN"}), seq=99),
        Packet(start_us + 100_000, "down", frozenset({"SYN", "ACK"}), seq=499, ack=100),
        Packet(start_us + 700_000, "up", frozenset({"ACK"}), seq=100, ack=500, data=200),
    ]
    free = 0
    acks: list[int] = []
    for i in range(segments):
        sent = start_us + 800_000 + i if i < ahead else acks[i - ahead] + 50_000
        free = max(free, sent + DOWN_US) + (DATA + HEADER) * rate_us_per_byte
        acks.append(max(free + UP_US + late_us(i), acks[-1] if acks else 0))
        lines.append(
            Packet(sent, "down", frozenset({"ACK"}), seq=500 + i * DATA, ack=300, data=DATA)
        )
    for i, at in enumerate(acks):
        if i != lost:
            ack = 500 + (i + 1) * DATA if lost is None or i < lost else 500 + lost * DATA
            lines.append(Packet(at, "up", frozenset({"ACK"}), seq=300, ack=ack))
    return lines


def rates(lines: list[Packet], flight_size_bytes: int = 4500) -> list[dict]:
    return tables(lines, flight_size_bytes)["channel_rates"]


def test_saturated_link_shows_its_rate():
    (period,) = rates(download(100))
    assert period["rate"] == pytest.approx(RATE, rel=0.001)


def test_bytes_lie_between_the_first_and_the_last_ack():
    (period,) = rates(download(100))
    seconds = (period["end_ts"] - period["start_ts"]).total_seconds()
    assert period["ip_bytes"] % (DATA + HEADER) == 0
    assert 8 * period["ip_bytes"] / seconds == pytest.approx(RATE, rel=0.001)


def test_too_little_in_flight_gives_no_rate():
    assert rates(download(100, ahead=4)) == []


def test_flight_size_threshold_is_the_networks_setting():
    assert rates(download(100), flight_size_bytes=20_000) == []


def test_short_transfer_gives_no_rate():
    assert rates(download(16)) == []


def test_link_that_idles_gives_no_rate():
    """Ten times the rate: 8 segments are sent in 160 ms, of a round trip of 600."""
    assert rates(download(100, rate_us_per_byte=BYTE_US // 10)) == []


FAST_US = 20
"""A byte's time on a link of 400 kbit/s, on which a segment takes 20 ms and a round trip from the
server, of a link that is idle, 50 + 300 + 20 + 300 = 670 ms."""
WINDOW = 50
"""Segments: 1000 ms of that link."""


def wave(i: int) -> int:
    """ACKs late by 0 to 430 ms, once up and down a window (us)."""
    phase = i % WINDOW
    return 430_000 * min(phase, WINDOW - phase) // (WINDOW // 2)


def test_late_acks_do_not_count_as_a_queue():
    """What a window's round trip does not spend in the queue its ACK is late by, so that each round
    trip is as long as the longest: 670 + 430 = 1100 ms, in which the link serves for 1000."""
    assert rates(download(20 * WINDOW, WINDOW, FAST_US, late_us=wave)) == []


def test_a_queue_shows_the_rate_even_with_late_acks():
    """Half a window more: 1500 ms of the link in round trips that jitter makes 1100 at most."""
    (period,) = rates(download(20 * WINDOW, WINDOW * 3 // 2, FAST_US, late_us=wave))
    assert period["rate"] == pytest.approx(8e6 / FAST_US, rel=0.005)


def test_moment_of_an_idle_link_splits_the_period():
    """Late ACKs of one window only: the link idles once, for 1100 - 1000 ms."""

    def once(i: int) -> int:
        return wave(i) if i // WINDOW == 10 else 0

    periods = rates(download(20 * WINDOW, WINDOW, FAST_US, late_us=once))
    assert len(periods) == 2
    for period in periods:
        assert period["rate"] == pytest.approx(8e6 / FAST_US, rel=0.001)


def stamped_late(lines: list[Packet], us: int) -> list[Packet]:
    """The first packet with downlink data came, says its stamp, so much later."""
    first = next(p for p in lines if p.way == "down" and p.data)
    return [p.later(us) if p is first else p for p in lines]


def test_base_rtt_is_not_taken_from_a_single_connection():
    """31 segments are 620 of 670 ms: the link idles, unless the base round trip were 300 ms.
    A packet stamped late makes it so, in a download of one segment an hour before."""
    window_of_one_bdp = download(400, 31, FAST_US, start_us=3_600_000_000)
    short = [replace(p, port=1025) for p in stamped_late(download(1, 1, FAST_US), 300_000)]
    (period,) = rates([*short, *window_of_one_bdp])  # the first flight alone fills the link
    assert period["rate"] == pytest.approx(8e6 / FAST_US, rel=0.001)
    assert period["ip_bytes"] < 31 * (DATA + HEADER)


def test_short_queue_shows_the_rate():
    """35 segments are 700 of 670 ms: one or two wait at a time."""
    (period,) = rates(download(400, 35, FAST_US))
    assert period["rate"] == pytest.approx(8e6 / FAST_US, rel=0.001)
    assert period["ip_bytes"] > 390 * (DATA + HEADER)


def test_period_ends_where_acks_stop():
    (period,) = rates(download(100, lost=60))
    assert period["ip_bytes"] <= 60 * (DATA + HEADER)
    assert period["rate"] == pytest.approx(RATE, rel=0.001)


@pytest.mark.parametrize("other", [111, 3000], ids=["a little", "most, as QUIC"])
def test_bytes_of_other_protocols_count_towards_the_rate(other):
    """With each TCP packet of 1000 bytes the link also carries UDP packets of so many bytes."""
    lines = download(100, rate_us_per_byte=BYTE_US * (1000 + other) // 1000)
    udp = [
        Packet(p.us - 1, "down", frozenset({"UDP"}), data=other - HEADER, port=5000)
        for p in lines
        if p.way == "down" and p.data
    ]
    (period,) = rates([*lines, *udp])
    assert period["rate"] == pytest.approx(RATE, rel=0.005)


@pytest.mark.parametrize("down", [2**32 - 20_000, 2**31 - 10_000])
def test_sequence_wrap_changes_nothing(down):
    plain = rates(download(100))
    assert rates([p.numbered(up=77, down=down) for p in download(100)])[0]["rate"] == pytest.approx(
        plain[0]["rate"]
    )


def test_other_users_change_nothing():
    single_user = rates(download(100))
    other = [replace(p, user="bob") for p in download(80, rate_us_per_byte=BYTE_US * 2)]
    both = rates([*download(100), *other])
    assert [p["rate"] for p in both if p["user"] == "anna"] == [p["rate"] for p in single_user]


@pytest.mark.parametrize("way", ["up", "down"])
def test_one_direction_gives_no_rate(way):
    assert rates([p for p in download(100) if p.way == way]) == []


def test_zero_windows_give_no_rate():
    closed = [replace(p, win=0) if p.way == "up" else p for p in download(100)]
    assert rates(closed) == []
