"""Losses on the access side and on the Internet side, in short exchanges (see `segments`)."""

from dataclasses import replace

import pytest

from tests.helpers.packet_script import Packet, tables
from tests.helpers.replies import FIN
from tests.helpers.segments import (
    ACK,
    DATA,
    RTT_US,
    SLOT_US,
    acked,
    lost,
    sent,
    started,
    user_seen_at,
)


def places(lines: list[Packet], *wanted: Packet) -> list[int]:
    return [lines.index(packet) for packet in wanted]


def by_fast_retransmit(sack: bool) -> tuple[list[Packet], Packet]:
    """
    Gi     | d4 d5 d6 d7                    d4'
    mobile |               a3 a3 a3 (of d5 d6 d7)     a7
    """
    t = 5_000_000
    dropped = sent(t, 4)
    lines = [*started(sack), dropped, *(sent(t + 1000 * i, 4 + i) for i in (1, 2, 3))]
    for i in (1, 2, 3):
        blocks = [(5, 4 + i)] if sack else []
        lines.append(acked(t + RTT_US + SLOT_US * (i + 1), 3, *blocks))
    lines += [sent(t + 1_200_000, 4), acked(t + 1_200_000 + RTT_US + SLOT_US, 7)]
    return [*lines, *user_seen_at(60_000_000)], dropped


@pytest.mark.parametrize("sack", [False, True])
def test_hole_reported_by_the_receiver_is_a_loss(sack):
    lines, dropped = by_fast_retransmit(sack)
    assert [place for place, _ in lost(lines)] == places(lines, dropped)


@pytest.mark.parametrize("sack", [False, True])
def test_retransmission_of_a_lost_segment_was_needed(sack):
    lines, dropped = by_fast_retransmit(sack)
    (row,) = tables(lines)["retransmissions"]
    assert row["needed"] is True
    assert [row["original_frame"]] == places(lines, dropped)


def test_flow_has_the_count_of_its_losses():
    lines, _ = by_fast_retransmit(True)
    row = tables(lines)["flows"][0]
    assert (row["lost_access"], row["lost_internet"], row["bottleneck"]) == (1, 0, "access")
    assert row["lost_access_expected"] == 1


def test_rto_expiry_while_the_original_is_in_flight_is_no_loss():
    """
    Gi     | d4 ......... d4' ..      the link stood still; d4's ACK comes 100 ms after d4' passed
    mobile |                 a4  a4   Gi, sooner than any round trip; d4' is answered by a duplicate
    """
    t = 5_000_000
    lines = [
        *started(),
        sent(t, 4),
        sent(t + 3_000_000, 4),
        acked(t + 3_100_000, 4),
        acked(t + 3_700_000, 4),
        *user_seen_at(60_000_000),
    ]
    assert lost(lines) == []
    (row,) = tables(lines)["retransmissions"]
    assert row["needed"] is False


def test_d_sack_proves_that_original_and_retransmission_arrived():
    """The block before the cumulative ACK reports what came twice (RFC 2883)."""
    t = 5_000_000
    lines = [
        *started(sack=True),
        sent(t, 4),
        sent(t + 1_000_000, 4),
        acked(t + 1_700_000, 4),
        acked(t + 1_800_000, 4, (4, 4)),
        *user_seen_at(60_000_000),
    ]
    assert lost(lines) == []


def test_ack_that_jumps_over_data_proves_its_arrival():
    """d4 and d6 are lost, d5 arrived: the retransmission of d4 is answered by an ACK up to d5."""
    t = 5_000_000
    dropped = sent(t, 4), sent(t + 2000, 6)
    lines = [
        *started(),
        dropped[0],
        sent(t + 1000, 5),
        dropped[1],
        acked(t + 800_000, 3),
        sent(t + 2_000_000, 4),
        acked(t + 2_700_000, 5),
        sent(t + 2_900_000, 6),
        acked(t + 3_600_000, 6),
        *user_seen_at(60_000_000),
    ]
    assert [place for place, _ in lost(lines)] == places(lines, *dropped)


def test_lost_retransmission_is_a_loss_too():
    """Three transmissions of d4; the ACK follows the third by a round trip."""
    t = 5_000_000
    dropped = sent(t, 4), sent(t + 2_000_000, 4)
    lines = [
        *started(),
        *dropped,
        sent(t + 6_000_000, 4),
        acked(t + 6_700_000, 4),
        *user_seen_at(60_000_000),
    ]
    assert [place for place, _ in lost(lines)] == places(lines, *dropped)


def test_loss_is_undecided_where_the_capture_ends_before_the_ack():
    """The capture ends before d4's ACK can have come."""
    lines = [*started(), sent(5_000_000, 4)]
    assert [evidence for _, evidence in lost(lines)] == ["undecided"]
    row = tables(lines)["flows"][0]
    assert row["lost_access"] == 0
    assert 0 < row["lost_access_expected"] < 0.5


def test_loss_on_the_internet_side_leaves_a_hole():
    """d4 never passes Gi until it is retransmitted."""
    t = 5_000_000
    lines = [*started(), *(sent(t + 1000 * i, 4 + i) for i in (1, 2, 3))]
    lines += [acked(t + RTT_US + SLOT_US * i, 3) for i in (1, 2, 3)]
    lines += [sent(t + 1_200_000, 4), acked(t + 1_900_000, 7), *user_seen_at(60_000_000)]
    assert lost(lines) == []
    assert lost(lines, "internet") == [(None, "hole")]
    row = tables(lines)["flows"][0]
    assert (row["lost_access"], row["lost_internet"], row["bottleneck"]) == (0, 1, "internet")
    (retransmission,) = tables(lines)["retransmissions"]
    assert retransmission["original_frame"] is None


def test_reordering_on_the_internet_side_is_no_loss():
    """d5 passes Gi 40 ms before d4."""
    t = 5_000_000
    lines = [*started(), sent(t, 5), sent(t + 40_000, 4), acked(t + 800_000, 5)]
    lines += user_seen_at(60_000_000)
    assert lost(lines) == lost(lines, "internet") == []


def test_data_that_the_monitor_missed_is_no_loss():
    """d4 and d5 are acknowledged though Gi never saw them."""
    lines = [*started(), sent(5_000_000, 6), acked(5_700_000, 6), *user_seen_at(60_000_000)]
    assert lost(lines) == lost(lines, "internet") == []
    assert tables(lines)["flows"][0]["acked_unseen_bytes"] == 2 * DATA


@pytest.mark.parametrize("way", ["up", "down"])
def test_one_direction_gives_no_losses(way):
    lines = [p for p in by_fast_retransmit(True)[0] if p.way == way]
    assert lost(lines) == []
    row = tables(lines)["flows"][0]
    if way == "down":
        assert row["lost_access"] is row["lost_access_expected"] is row["bottleneck"] is None


@pytest.mark.parametrize("sack", [False, True])
def test_loss_is_found_in_a_connection_without_its_syn(sack):
    lines, dropped = by_fast_retransmit(sack)
    lines = [p for p in lines if "SYN" not in p.flags or p.port == 2000]
    assert [place for place, _ in lost(lines)] == places(lines, dropped)


def test_keep_alives_are_no_losses():
    """An old byte, or none, repeatedly; the mobile answers each (RFC 9293, 3.8.4)."""
    lines = started()
    for i in range(5):
        at = 10_000_000 + i * 5_000_000
        lines.append(Packet(at, "down", ACK, seq=500 + 3 * DATA - 1, ack=300, data=i % 2))
        lines.append(acked(at + RTT_US, 3))
    assert lost([*lines, *user_seen_at(60_000_000)]) == []


def test_zero_window_and_its_probes_are_no_losses():
    lines = [*started(), replace(acked(4_000_000, 3), win=0)]
    for i in range(3):
        at = 5_000_000 + i * 2_000_000
        lines.append(Packet(at, "down", ACK, seq=500 + 3 * DATA - 1, ack=300))
        lines.append(replace(acked(at + RTT_US, 3), win=0))
    lines += [acked(12_000_000, 3), sent(12_200_000, 4), acked(12_900_000, 4)]
    assert lost([*lines, *user_seen_at(60_000_000)]) == []


def test_data_unanswered_before_a_reset_is_no_loss():
    lines = [*started(), sent(5_000_000, 4), Packet(5_700_000, "up", frozenset({"RST"}), seq=300)]
    rows = tables([*lines, *user_seen_at(5_800_000)])
    assert rows["flows"][0]["lost_access"] == 0


def test_connection_on_a_reused_port_has_its_own_losses():
    lines = by_fast_retransmit(True)[0][:-1]
    fresh = [p.later(100_000_000).numbered(up=10_000, down=50_000) for p in lines]
    rows = tables([*lines, *fresh])
    assert [row["lost_access"] for row in rows["flows"]] == [1, 1]
    assert len(rows["losses"]) == 2


def test_second_syn_with_another_number_gives_plausible_loss_counts():
    lines, _ = by_fast_retransmit(True)
    second_syn = Packet(50_000, "up", frozenset({"SYN"}), seq=77_777, sackok=True)
    for row in tables([lines[0], second_syn, *lines[1:]])["flows"]:
        assert row["lost_internet"] in (0, None)
        assert row["lost_access"] in (0, 1, None)


@pytest.mark.parametrize("sack", [False, True])
@pytest.mark.parametrize("down", [2**32 - 2_500, 2**32 - 5_500, 2**31 - 4_000])
def test_sequence_wrap_changes_nothing(sack, down):
    lines, dropped = by_fast_retransmit(sack)
    wrapped = [p.numbered(up=2**32 - 200, down=down) for p in lines]
    assert [place for place, _ in lost(wrapped)] == places(lines, dropped)


def test_other_users_change_nothing():
    lines, dropped = by_fast_retransmit(True)
    others = [replace(p, user="bob") for p in by_fast_retransmit(False)[0]]
    mine = [r for r in tables([*lines, *others])["losses"] if r["frame"] < len(lines)]
    assert [r["frame"] for r in mine] == places(lines, dropped)


def test_d_sack_for_each_retransmission_proves_that_all_arrived():
    """
    Gi     | d4 d5        d4' d5'
    mobile |       a5 (late)      a5 a5 (D-SACKs of d4 and d5)
    """
    t = 5_000_000
    lines = [*started(sack=True), sent(t, 4), sent(t + 1000, 5)]
    lines += [sent(t + 1_000_000, 4), sent(t + 1_001_000, 5)]
    lines += [
        acked(t + 1_500_000, 5),
        acked(t + 2_500_000, 5, (4, 4)),
        acked(t + 2_600_000, 5, (5, 5)),
    ]
    assert lost([*lines, *user_seen_at(60_000_000)]) == []


def test_duplicate_acks_after_a_spurious_retransmission_are_no_losses():
    """
    Gi     | d3'           d4 d5 d6
    mobile |           a3           a4 a4 (at once) a5 a6
    """
    t = 8_000_000
    lines = [*started(), sent(5_000_000, 3), acked(5_000_000 + RTT_US + SLOT_US, 3)]
    lines += [sent(t, 4), sent(t + 1000, 5), sent(t + 2000, 6)]
    first = t + RTT_US + SLOT_US
    lines += [acked(first, 4), acked(first + 1000, 4)]
    lines += [acked(first + SLOT_US, 5), acked(first + 2 * SLOT_US, 6)]
    assert lost([*lines, *user_seen_at(60_000_000)]) == []


def test_data_that_the_mobile_reneges_on_is_no_loss():
    """
    Gi     | d4 d5 d6          d4'            d6'
    mobile |       a3 (d5, d6)     a5 (no d6)     a6
    """
    t = 5_000_000
    dropped = sent(t, 4)
    lines = [*started(sack=True), dropped, sent(t + 1000, 5), sent(t + 2000, 6)]
    lines += [acked(t + 800_000, 3, (5, 5)), acked(t + 900_000, 3, (5, 6))]
    lines += [sent(t + 1_000_000, 4), acked(t + 1_700_000, 5)]
    lines += [sent(t + 4_000_000, 6), acked(t + 4_700_000, 6)]
    assert [place for place, _ in lost([*lines, *user_seen_at(60_000_000)])] == places(
        lines, dropped
    )


def test_ack_sooner_than_any_round_trip_answers_the_only_transmission_so_far():
    """The smallest RTT so far was 700 ms, but jitter makes it shorter once.

    Gi     | (d4)  d5        d4'             d4''      d4 is lost on the Internet side
    mobile |           a3         a5                   450 ms after d4'; the server does not hear it
    """
    lines = [*started(), sent(4_000_000, 5), acked(4_700_000, 3), sent(6_000_000, 4)]
    lines += [acked(6_450_000, 5), sent(9_000_000, 4), acked(9_700_000, 5)]
    rows = tables([*lines, *user_seen_at(60_000_000)])
    assert [(r["side"], r["seq"]) for r in rows["losses"]] == [("internet", 500 + 3 * DATA)]
    assert [r["needed"] for r in rows["retransmissions"]] == [True, False]


def test_fin_without_data_is_no_original_of_data():
    """
    Gi     | (d4)  FIN        d4' with FIN       d4 is lost on the Internet side
    mobile |            a3               a4
    """
    lines = [*started(), Packet(4_000_000, "down", FIN, seq=500 + 4 * DATA, ack=300)]
    lines += [acked(4_600_000, 3), replace(sent(6_000_000, 4), flags=FIN)]
    lines += [replace(acked(6_700_000, 4), ack=501 + 4 * DATA)]
    (row,) = tables([*lines, *user_seen_at(60_000_000)])["retransmissions"]
    assert (row["original_frame"], row["needed"]) == (None, True)


def silent(report: bool) -> list[Packet]:
    """d4 has a spurious retransmission, reported by a D-SACK. Then, after 9 s of silence, d5 is
    retransmitted, and both ACKs of it may have been lost, or one and d5.

    Gi     | d4    d4'         d5             d5'
    mobile |   a4     a4 (d4)     (a5)            a5
    """
    lines = [*started(True), sent(4_000_000, 4), acked(4_700_000, 4), sent(5_000_000, 4)]
    lines += [acked(5_700_000, 4, (4, 4)), sent(6_000_000, 5), sent(15_000_000, 5)]
    blocks = [(5, 5)] if report else []
    return [*lines, acked(15_700_000, 5, *blocks), *user_seen_at(60_000_000)]


@pytest.mark.parametrize(("report", "needed"), [(True, (False,)), (False, (None, True))])
def test_retransmission_without_the_usual_d_sack_is_not_taken_for_spurious(report, needed):
    rows = tables(silent(report))["retransmissions"]
    assert rows[0]["needed"] is False
    assert rows[1]["needed"] in needed
