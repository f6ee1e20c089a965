"""pages: a user's bursts of connections, and how many connections are active at once.

An object of one segment takes 1.5 s: the SYN, the SYN ACK after 0.1 s, the request after 0.7 s, the
data after 0.8 s, its ACK. The user's least round trip is 600 ms, so 2.2 s of quiet end a page.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.packet_script import Packet, tables
from tests.helpers.segments import ACK, DATA, SLOT_US

SYN, SECOND = frozenset({"SYN"}), 1_000_000
QUIET = SECOND + 2 * 600_000
LASTS = 800_000 + 600_000 + SLOT_US


def loaded(at: int, port: int, packets: int = 1) -> list[Packet]:
    """A connection that fetches an object of so many segments."""
    lines = [
        Packet(0, "up", SYN, seq=99),
        Packet(100_000, "down", SYN | ACK, seq=499, ack=100),
        Packet(700_000, "up", ACK, seq=100, ack=500),
        Packet(700_000, "up", ACK, seq=100, ack=500, data=200),
    ]
    for k in range(packets):
        lines.append(Packet(800_000, "down", ACK, seq=500 + DATA * k, ack=300, data=DATA))
    for k in range(packets):
        there = 800_000 + 600_000 + SLOT_US * (k + 1)
        lines.append(Packet(there, "up", ACK, seq=300, ack=500 + DATA * (k + 1)))
    return [replace(p, us=p.us + at, port=port) for p in lines]


def next_request(at: int, port: int, number: int = 1) -> list[Packet]:
    """The next request on a connection of one segment so far, and its answer."""
    lines = [
        Packet(0, "up", ACK, seq=100 + 200 * number, ack=500 + DATA * number, data=200),
        Packet(100_000, "down", ACK, seq=500 + DATA * number, ack=300 + 200 * number, data=DATA),
        Packet(800_000, "up", ACK, seq=300 + 200 * number, ack=500 + DATA * (number + 1)),
    ]
    return [replace(p, us=p.us + at, port=port) for p in lines]


def seen(*exchanges: list[Packet]) -> dict[str, list[dict]]:
    return tables(sorted((p for e in exchanges for p in e), key=lambda p: p.us))


def page_rows(*exchanges: list[Packet]) -> list[tuple[int, int, float]]:
    """(connections, at once, seconds) of each page."""
    return [
        (r["connections"], r["parallel"], (r["end_ts"] - r["start_ts"]).total_seconds())
        for r in seen(*exchanges)["pages"]
    ]


def test_page_lasts_from_the_first_syn_to_the_last_ack():
    (row,) = seen(loaded(0, 1, packets=3))["pages"]
    assert (row["end_ts"] - row["start_ts"]).total_seconds() == (LASTS + 2 * SLOT_US) / 1e6
    assert (row["connections"], row["parallel"], row["payload_bytes"]) == (1, 1, 3 * DATA)
    assert row["ip_bytes"] == 3 * (DATA + 40) + 40


@pytest.mark.parametrize(("idle", "pages"), [(QUIET, 1), (QUIET + 1, 2)])
def test_idle_time_ends_a_page(idle, pages):
    assert len(page_rows(loaded(0, 1), loaded(LASTS + idle, 2))) == pages


@pytest.mark.parametrize(("idle", "pages"), [(QUIET, 1), (QUIET + 1, 2)])
def test_reused_connection_belongs_to_both_pages(idle, pages):
    rows = page_rows(loaded(0, 1), next_request(LASTS + idle, 1))
    assert [connections for connections, _, _ in rows] == [1] * pages


def test_parallel_is_the_largest_number_of_connections_active_at_once():
    """Two at a time, three in all."""
    rows = seen(loaded(0, 1, 30), loaded(SECOND, 2), loaded(3 * SECOND, 3))
    assert [r["parallel"] for r in rows["flows"]] == [2, 2, 2]
    assert [(r["connections"], r["parallel"]) for r in rows["pages"]] == [(3, 2)]


def quic(begin: int, end: int, port: int = 5000, server_port: int = 443) -> list[Packet]:
    """Packets of 1040 bytes to the mobile, one a second, from `begin` to `end`."""
    return [
        Packet(at, "down", frozenset({"UDP"}), data=DATA, port=port, server_port=server_port)
        for at in range(begin, end + 1, SECOND)
    ]


def test_quic_connections_count_as_parallel():
    """Two of QUIC beside one of TCP, then another that begins after it has ended: a page alone."""
    after = LASTS + QUIET
    udp = [quic(0, 3 * SECOND), quic(0, 2 * SECOND, 5001), quic(8 * SECOND, 9 * SECOND, 5002)]
    rows = seen(loaded(0, 1), *udp)
    assert [r["parallel"] for r in rows["flows"]] == [3]
    page, alone = rows["pages"]
    assert (page["connections"], page["quic_connections"], page["parallel"]) == (3, 2, 3)
    assert (alone["connections"], alone["quic_connections"], alone["payload_bytes"]) == (1, 1, 0)
    assert page["ip_bytes"] == (DATA + 40) + 40 + 7 * (DATA + 40)
    assert after < 8 * SECOND - 3 * SECOND


def test_dns_and_idle_quic_do_not_count_as_parallel():
    lookups = quic(0, SECOND, server_port=53)
    idle = [quic(0, 0), quic(QUIET + SECOND, QUIET + SECOND)]
    rows = seen(loaded(SECOND // 2, 1), lookups)
    assert [r["parallel"] for r in rows["flows"]] == [1]
    rows = seen(loaded(SECOND // 2, 1), *idle)
    assert [r["parallel"] for r in rows["flows"]] == [1]


def test_idle_connection_does_not_count_as_parallel():
    """The first waits for its next request while the second loads."""
    lines = [loaded(0, 1), loaded(LASTS + QUIET + 1, 2), next_request(4 * (LASTS + QUIET), 1)]
    rows = seen(*lines)
    assert [r["parallel"] for r in rows["flows"]] == [1, 1]
    assert [r["connections"] for r in rows["pages"]] == [1, 1, 1]


def test_silence_with_data_in_flight_does_not_end_a_page():
    """Nothing for 20 s, then the segment is retransmitted."""
    first = loaded(0, 1)[:-1]
    rest = [replace(first[-1], us=21 * SECOND), Packet(22 * SECOND, "up", ACK, 300, 1500, port=1)]
    (row,) = page_rows(first, rest)
    assert row == (1, 1, 22.0)


def test_waiting_long_poll_is_no_page():
    """It is answered after a minute; meanwhile the user loads another page."""
    poll = loaded(0, 1)[:4]
    news = [replace(p, us=p.us + 60 * SECOND) for p in loaded(0, 1)[4:]]
    rows = page_rows(poll, loaded(20 * SECOND, 2), news)
    assert [(connections, parallel) for connections, parallel, _ in rows] == [(1, 1), (1, 1)]


def test_without_data_there_is_no_page():
    assert page_rows(loaded(0, 1)[:3]) == []
    assert seen(loaded(0, 1)[:3])["flows"][0]["parallel"] == 1


def test_users_have_pages_of_their_own():
    of_bert = [replace(p, user="bert") for p in loaded(0, 1)]
    rows = seen(loaded(0, 1), of_bert)
    assert sorted(r["user"] for r in rows["pages"]) == ["anna", "bert"]
    assert [r["parallel"] for r in rows["flows"]] == [1, 1]


def test_retransmitted_payload_counts_once():
    lines = loaded(0, 1)
    lines.insert(5, replace(lines[4], us=900_000))
    (row,) = seen(lines)["pages"]
    assert (row["payload_bytes"], row["ip_bytes"]) == (DATA, 2 * (DATA + 40) + 40)


def test_rate_share_is_bytes_per_second_over_the_channel_rate():
    """A busy link takes SLOT_US for 1040 bytes; the page has set-up times, too."""
    (row,) = seen(loaded(0, 1, packets=40))["pages"]
    seconds = (LASTS + 39 * SLOT_US) / 1e6
    assert row["rate_share"] == pytest.approx(
        8 * (40 * (DATA + 40) + 40) / seconds / (8 * (DATA + 40) / 0.1), rel=0.01
    )


def test_rate_share_is_null_where_the_channel_rate_is_unknown():
    (row,) = seen(loaded(0, 1))["pages"]
    assert row["rate_share"] is None


def test_parallel_equals_a_count_at_every_start():
    """Random connections, compared with a direct count."""
    random = np.random.default_rng(7)
    spans = [(int(random.integers(0, 60 * SECOND)), int(random.integers(1, 60))) for _ in range(80)]
    lines = [loaded(at, port, packets) for port, (at, packets) in enumerate(spans, 1)]
    ends = [(at, at + LASTS + (packets - 1) * SLOT_US) for at, packets in spans]
    active = {at: sum(a <= at <= b for a, b in ends) for at, _ in ends}
    expected = [max(n for at, n in active.items() if a <= at <= b) for a, b in sorted(ends)]
    rows = sorted(seen(*lines)["flows"], key=lambda r: (r["start_ts"], r["end_ts"]))
    assert [r["parallel"] for r in rows] == expected
