"""Round trips on the access side during a transfer, on short exchanges (see `segments`)."""

from packet_script import Packet, tables
from segments import RTT_US, SLOT_US, acked, opened, sent, started


def least(lines: list[Packet]) -> float | None:
    return tables(lines)["flows"][0]["rtt_access_min"]


def test_least_of_several():
    lines = started(first=3)
    quick = [sent(5_000_000, 4), acked(5_650_000, 4)]
    assert least(lines) == (RTT_US + SLOT_US) / 1e6
    assert least([*lines, *quick]) == 0.65


def test_ack_answers_the_latest_packet_that_it_covers():
    assert least([*opened(), sent(900_000, 1), sent(950_000, 2), acked(1_600_000, 2)]) == 0.65


def test_data_sent_again_tells_nothing():
    lines = [*opened(), sent(900_000, 1), sent(2_000_000, 1), acked(2_100_000, 1)]
    assert least(lines) is None


def test_data_that_waits_for_a_hole_to_be_filled_tells_nothing():
    """
    Gi     | d1 d2         d1'
    mobile |        a0 (d2)     a2
    """
    lines = [*opened(), sent(900_000, 1), sent(901_000, 2), acked(1_600_000, 0)]
    assert least([*lines, sent(2_000_000, 1), acked(2_650_000, 2)]) is None


def test_handshake_alone_is_no_data_packet():
    assert least(opened()) is None
