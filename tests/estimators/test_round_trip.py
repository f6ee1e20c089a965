"""Round trips on the access side during a transfer, on short exchanges (see `segments`)."""

from tests.helpers.packet_script import Packet, tables
from tests.helpers.segments import RTT_US, SLOT_US, acked, opened, sent, started


def least(lines: list[Packet]) -> float | None:
    return tables(lines)["flows"][0]["rtt_access_min"]


def test_rtt_access_min_is_the_smallest_of_several():
    lines = started(first=3)
    quick = [sent(5_000_000, 4), acked(5_650_000, 4)]
    assert least(lines) == (RTT_US + SLOT_US) / 1e6
    assert least([*lines, *quick]) == 0.65


def test_rtt_is_from_the_last_segment_that_an_ack_covers():
    assert least([*opened(), sent(900_000, 1), sent(950_000, 2), acked(1_600_000, 2)]) == 0.65


def test_retransmitted_data_gives_no_rtt():
    lines = [*opened(), sent(900_000, 1), sent(2_000_000, 1), acked(2_100_000, 1)]
    assert least(lines) is None


def test_data_after_a_hole_gives_no_rtt():
    """
    Gi     | d1 d2         d1'
    mobile |        a0 (d2)     a2
    """
    lines = [*opened(), sent(900_000, 1), sent(901_000, 2), acked(1_600_000, 0)]
    assert least([*lines, sent(2_000_000, 1), acked(2_650_000, 2)]) is None


def test_set_up_without_data_gives_no_rtt_access_min():
    assert least(opened()) is None
