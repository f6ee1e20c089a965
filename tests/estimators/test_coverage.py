"""A direction that the monitor did not see is distinguished from a peer that does not answer."""

from dataclasses import replace

import pytest

from tests.helpers.packet_script import Packet, flow, tables
from tests.helpers.replies import MS, after_a_timeout
from tests.helpers.segments import RTT_US, acked, opened, sent, user_seen_at

ONE_WAY = {
    "handshake continues: there was a SYN ACK": (
        "up",
        """
        0.000 up    SYN      seq=99
        0.200 up    ACK      seq=100 ack=500
        """,
    ),
    "ACKs advance": (
        "up",
        """
        0.000 up    ACK      seq=100 ack=500
        0.200 up    ACK      seq=100 ack=2500
        """,
    ),
    "SYN ACK, then data: there was an ACK": (
        "down",
        """
        0.000 down  SYN ACK  seq=499 ack=100
        0.900 down  ACK      seq=500 ack=200 data=1000
        """,
    ),
    "more than a window of data": (
        "down",
        """
        0.000 down  ACK      seq=500    ack=100 data=1000
        0.900 down  ACK      seq=70500  ack=100 data=1000
        """,
    ),
}
NOT_ANSWERED = {
    "SYNs": """
        0.000 up    SYN      seq=99
        1.000 up    SYN      seq=99
        """,
    "SYN ACKs to a forged address": """
        0.000 down  SYN ACK  seq=499 ack=100
        1.000 down  SYN ACK  seq=499 ack=100
        2.000 down  RST      seq=500
        """,
    "keep-alives of a mobile whose server vanished": """
        0.000 up    ACK      seq=99 ack=500
        60.00 up    ACK      seq=99 ack=500
        """,
    "data retransmitted to a mobile that vanished": """
        0.000 down  ACK      seq=500 ack=100 data=1000
        1.000 down  ACK      seq=500 ack=100 data=1000
        """,
    "both": """
        0.000 up    SYN      seq=99
        0.100 down  SYN ACK  seq=499 ack=100
        0.200 up    ACK      seq=100 ack=500
        """,
}


@pytest.mark.parametrize(("seen", "exchange"), ONE_WAY.values(), ids=ONE_WAY)
def test_direction_that_the_other_one_implies_is_reported_as_not_seen(seen, exchange):
    found = flow(exchange)
    assert found["directions_seen"] == seen
    of_both = ("lost_access", "lost_internet", "timestamps", "single", "parallel")
    assert {found[name] for name in of_both} == {None}


@pytest.mark.parametrize("exchange", NOT_ANSWERED.values(), ids=NOT_ANSWERED)
def test_peer_that_does_not_answer_is_no_unseen_direction(exchange):
    assert flow(exchange)["directions_seen"] == "both"


def test_acknowledged_bytes_that_gi_never_saw_are_counted():
    found = flow(
        """
        0.000 up    SYN      seq=99
        0.200 up    ACK      seq=100 ack=500
        0.900 up    ACK      seq=100 ack=3500
        """
    )
    assert found["acked_unseen_bytes"] == 3000


@pytest.mark.parametrize(("unseen", "known"), [(1000, False), (0, True)])
def test_losses_are_null_where_the_monitor_missed_more_than_one_percent(unseen, known):
    """Fifty segments, the last of which the monitor misses or sees."""
    lines = ["0.0 up SYN seq=99", "0.1 down SYN ACK seq=499 ack=100", "0.3 up ACK seq=100 ack=500"]
    for i in range(50 - unseen // 1000):
        lines.append(f"{i + 1} down ACK seq={500 + 1000 * i} ack=100 data=1000")
        lines.append(f"{i + 1}.5 up ACK seq=100 ack={1500 + 1000 * i}")
    lines.append("60 up ACK seq=100 ack=50500")
    found = flow("\n".join(lines))
    assert found["acked_unseen_bytes"] == unseen
    has_value = [found[name] is not None for name in ("lost_access", "lost_internet", "goodput")]
    assert has_value == [known] * 3


def us(packet: Packet) -> int:
    return packet.us


def halved(connections: int, first_unseen: int = 0) -> list[Packet]:
    """Connections with ten segments and a retransmission of d3 each; from `first_unseen` on, the
    capture has only every second segment of each."""
    lines = []
    for c in range(connections):
        originals = [sent(1_000_000 + n * MS, n) for n in range(1, 11)]
        acks = [acked(1_000_000 + RTT_US + n * MS, n) for n in (1, 2, *(2,) * 7)]
        retransmission = [sent(2_000_000, 3), acked(2_000_000 + RTT_US, 10)]
        kept = originals[::2] if c >= first_unseen else originals
        one = sorted([*opened(), *kept, *acks, *retransmission], key=lambda p: p.us)
        lines += [replace(p, port=1024 + c).later(c * 10_000_000) for p in one]
    return lines


SERVER_SIDE = ("retransmissions", "rto_expiries", "busy", "limited_by", "rtt_internet_min")


def test_capture_with_every_second_packet_missing_has_no_figures_about_the_server():
    """Nor are there rows of what is only inferred; of a retransmission only its being seen is
    left."""
    rows = tables([*halved(2), *user_seen_at(90_000_000)])
    for row in rows["flows"][:2]:
        assert 4000 <= row["acked_unseen_bytes"] <= 5000
        assert {row[name] for name in (*SERVER_SIDE, "lost_access", "lost_internet")} == {None}
    for name in ("losses", "rto_values", "stalls", "rtt_samples", "channel_rates"):
        assert rows[name] == []
    assert {(row["needed"], row["cause"]) for row in rows["retransmissions"]} <= {(None, None)}
    assert {row["rate_share"] for row in rows["pages"]} == {None}
    assert {row["rtt_min"] for row in rows["links"]} == {None}


def test_complete_connection_of_a_user_with_missing_packets_has_no_figures_either():
    """It may have been too short to miss anything, or its ACKs are what is missing."""
    assert tables([*halved(3, 3), *user_seen_at(90_000_000)])["flows"][0]["retransmissions"] == 1
    row = tables([*halved(3, 1), *user_seen_at(90_000_000)])["flows"][0]
    assert row["acked_unseen_bytes"] == 0
    assert {row[name] for name in (*SERVER_SIDE, "lost_access", "lost_internet")} == {None}


def test_one_incomplete_connection_does_not_affect_the_users_next_one():
    """A connection acknowledges five segments that Gi did not see; the next one is as it was."""
    odd = [replace(p, port=999) for p in [*opened(), acked(2_000_000, 5)]]
    rows = tables(sorted([*odd, *(p.later(10_000_000) for p in after_a_timeout()[0])], key=us))
    assert [row["retransmissions"] is None for row in rows["flows"]] == [True, False]


def test_missing_packets_of_one_user_do_not_affect_another():
    lines = [replace(p, user="bob") for p in halved(2)]
    rows = tables([*lines, *(p for p in after_a_timeout()[0])])["flows"]
    assert [row["retransmissions"] is None for row in rows] == [False, True, True]


def test_one_direction_gives_no_page():
    down = [p for p in halved(1, 1) if p.way == "down"]
    assert tables(down)["pages"] == []
