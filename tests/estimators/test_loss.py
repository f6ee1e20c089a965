"""Losses on the access side and before it, on short exchanges of segments (see `segments`)."""

from dataclasses import replace

import pytest
from packet_script import Packet, tables
from replies import FIN
from segments import ACK, DATA, RTT_US, SLOT_US, acked, later, lost, sent, started


def places(lines: list[Packet], *wanted: Packet) -> list[int]:
    return [lines.index(packet) for packet in wanted]


def by_fast_retransmit(sack: bool) -> tuple[list[Packet], Packet]:
    """
    Gi     | d4 d5 d6 d7                    d4'
    mobile |               a3 a3 a3 (of d5 d6 d7)     a7
    """
    t = 5_000_000
    gone = sent(t, 4)
    lines = [*started(sack), gone, *(sent(t + 1000 * i, 4 + i) for i in (1, 2, 3))]
    for i in (1, 2, 3):
        blocks = [(5, 4 + i)] if sack else []
        lines.append(acked(t + RTT_US + SLOT_US * (i + 1), 3, *blocks))
    lines += [sent(t + 1_200_000, 4), acked(t + 1_200_000 + RTT_US + SLOT_US, 7)]
    return [*lines, *later(60_000_000)], gone


@pytest.mark.parametrize("sack", [False, True])
def test_hole_that_the_receiver_reports_is_a_loss(sack):
    lines, gone = by_fast_retransmit(sack)
    assert [place for place, _ in lost(lines)] == places(lines, gone)


@pytest.mark.parametrize("sack", [False, True])
def test_retransmission_of_what_was_lost_was_needed(sack):
    lines, gone = by_fast_retransmit(sack)
    (row,) = tables(lines)["retransmissions"]
    assert row["needed"] is True
    assert [row["original_frame"]] == places(lines, gone)


def test_flow_counts_its_losses():
    lines, _ = by_fast_retransmit(True)
    row = tables(lines)["flows"][0]
    assert (row["lost_access"], row["lost_internet"], row["bottleneck"]) == (1, 0, "access")
    assert row["lost_access_expected"] == 1


def test_timeout_while_the_original_is_on_its_way_is_no_loss():
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
        *later(60_000_000),
    ]
    assert lost(lines) == []
    (row,) = tables(lines)["retransmissions"]
    assert row["needed"] is False


def test_d_sack_tells_that_both_copies_arrived():
    """The block before the cumulative ACK names what came twice (RFC 2883)."""
    t = 5_000_000
    lines = [
        *started(sack=True),
        sent(t, 4),
        sent(t + 1_000_000, 4),
        acked(t + 1_700_000, 4),
        acked(t + 1_800_000, 4, (4, 4)),
        *later(60_000_000),
    ]
    assert lost(lines) == []


def test_jump_over_data_not_sent_again_proves_its_arrival():
    """d4 and d6 are lost, d5 arrived: the retransmission of d4 is answered by an ACK up to d5."""
    t = 5_000_000
    gone = sent(t, 4), sent(t + 2000, 6)
    lines = [
        *started(),
        gone[0],
        sent(t + 1000, 5),
        gone[1],
        acked(t + 800_000, 3),
        sent(t + 2_000_000, 4),
        acked(t + 2_700_000, 5),
        sent(t + 2_900_000, 6),
        acked(t + 3_600_000, 6),
        *later(60_000_000),
    ]
    assert [place for place, _ in lost(lines)] == places(lines, *gone)


def test_retransmission_that_was_lost_too():
    """Three copies of d4; the ACK follows the third by a round trip."""
    t = 5_000_000
    gone = sent(t, 4), sent(t + 2_000_000, 4)
    lines = [
        *started(),
        *gone,
        sent(t + 6_000_000, 4),
        acked(t + 6_700_000, 4),
        *later(60_000_000),
    ]
    assert [place for place, _ in lost(lines)] == places(lines, *gone)


def test_answer_still_to_come_leaves_it_undecided():
    """The capture ends before d4's ACK can have come."""
    lines = [*started(), sent(5_000_000, 4)]
    assert [evidence for _, evidence in lost(lines)] == ["undecided"]
    row = tables(lines)["flows"][0]
    assert row["lost_access"] == 0
    assert 0 < row["lost_access_expected"] < 0.5


def test_loss_before_gi_leaves_a_hole():
    """d4 never passes Gi until it is retransmitted."""
    t = 5_000_000
    lines = [*started(), *(sent(t + 1000 * i, 4 + i) for i in (1, 2, 3))]
    lines += [acked(t + RTT_US + SLOT_US * i, 3) for i in (1, 2, 3)]
    lines += [sent(t + 1_200_000, 4), acked(t + 1_900_000, 7), *later(60_000_000)]
    assert lost(lines) == []
    assert lost(lines, "internet") == [(None, "hole")]
    row = tables(lines)["flows"][0]
    assert (row["lost_access"], row["lost_internet"], row["bottleneck"]) == (0, 1, "internet")
    (again,) = tables(lines)["retransmissions"]
    assert again["original_frame"] is None


def test_overtaking_before_gi_is_no_loss():
    """d5 passes Gi 40 ms before d4."""
    t = 5_000_000
    lines = [*started(), sent(t, 5), sent(t + 40_000, 4), acked(t + 800_000, 5)]
    lines += later(60_000_000)
    assert lost(lines) == lost(lines, "internet") == []


def test_data_that_the_monitor_missed_is_no_loss():
    """d4 and d5 are acknowledged though Gi never saw them."""
    lines = [*started(), sent(5_000_000, 6), acked(5_700_000, 6), *later(60_000_000)]
    assert lost(lines) == lost(lines, "internet") == []
    assert tables(lines)["flows"][0]["acked_unseen_bytes"] == 2 * DATA


@pytest.mark.parametrize("way", ["up", "down"])
def test_one_direction_tells_no_losses(way):
    lines = [p for p in by_fast_retransmit(True)[0] if p.way == way]
    assert lost(lines) == []
    row = tables(lines)["flows"][0]
    if way == "down":
        assert row["lost_access"] is row["lost_access_expected"] is row["bottleneck"] is None


@pytest.mark.parametrize("sack", [False, True])
def test_connection_without_its_syn(sack):
    lines, gone = by_fast_retransmit(sack)
    lines = [p for p in lines if "SYN" not in p.flags or p.port == 2000]
    assert [place for place, _ in lost(lines)] == places(lines, gone)


def test_keep_alives_are_no_losses():
    """An old byte, or none, again and again; the mobile answers each (RFC 9293, 3.8.4)."""
    lines = started()
    for i in range(5):
        at = 10_000_000 + i * 5_000_000
        lines.append(Packet(at, "down", ACK, seq=500 + 3 * DATA - 1, ack=300, data=i % 2))
        lines.append(acked(at + RTT_US, 3))
    assert lost([*lines, *later(60_000_000)]) == []


def test_zero_window_and_its_probes_are_no_losses():
    lines = [*started(), replace(acked(4_000_000, 3), win=0)]
    for i in range(3):
        at = 5_000_000 + i * 2_000_000
        lines.append(Packet(at, "down", ACK, seq=500 + 3 * DATA - 1, ack=300))
        lines.append(replace(acked(at + RTT_US, 3), win=0))
    lines += [acked(12_000_000, 3), sent(12_200_000, 4), acked(12_900_000, 4)]
    assert lost([*lines, *later(60_000_000)]) == []


def test_reset_ends_the_losses():
    lines = [*started(), sent(5_000_000, 4), Packet(5_700_000, "up", frozenset({"RST"}), seq=300)]
    rows = tables([*lines, *later(5_800_000)])
    assert rows["flows"][0]["lost_access"] == 0


def test_reused_port_starts_afresh():
    lines = by_fast_retransmit(True)[0][:-1]
    fresh = [p.later(100_000_000).numbered(up=10_000, down=50_000) for p in lines]
    rows = tables([*lines, *fresh])
    assert [row["lost_access"] for row in rows["flows"]] == [1, 1]
    assert len(rows["losses"]) == 2


def test_syn_again_with_another_number_gives_no_nonsense():
    lines, _ = by_fast_retransmit(True)
    again = Packet(50_000, "up", frozenset({"SYN"}), seq=77_777, sackok=True)
    for row in tables([lines[0], again, *lines[1:]])["flows"]:
        assert row["lost_internet"] in (0, None)
        assert row["lost_access"] in (0, 1, None)


@pytest.mark.parametrize("sack", [False, True])
@pytest.mark.parametrize("down", [2**32 - 2_500, 2**32 - 5_500, 2**31 - 4_000])
def test_sequence_wrap_changes_nothing(sack, down):
    lines, gone = by_fast_retransmit(sack)
    wrapped = [p.numbered(up=2**32 - 200, down=down) for p in lines]
    assert [place for place, _ in lost(wrapped)] == places(lines, gone)


def test_other_users_change_nothing():
    lines, gone = by_fast_retransmit(True)
    others = [replace(p, user="bob") for p in by_fast_retransmit(False)[0]]
    mine = [r for r in tables([*lines, *others])["losses"] if r["frame"] < len(lines)]
    assert [r["frame"] for r in mine] == places(lines, gone)


def test_d_sacks_for_every_other_copy_prove_that_all_arrived():
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
    assert lost([*lines, *later(60_000_000)]) == []


def test_acks_that_the_mobile_repeats_for_reasons_of_its_own():
    """
    Gi     | d3 (again)    d4 d5 d6
    mobile |           a3           a4 a4 (at once) a5 a6
    """
    t = 8_000_000
    lines = [*started(), sent(5_000_000, 3), acked(5_000_000 + RTT_US + SLOT_US, 3)]
    lines += [sent(t, 4), sent(t + 1000, 5), sent(t + 2000, 6)]
    first = t + RTT_US + SLOT_US
    lines += [acked(first, 4), acked(first + 1000, 4)]
    lines += [acked(first + SLOT_US, 5), acked(first + 2 * SLOT_US, 6)]
    assert lost([*lines, *later(60_000_000)]) == []


def test_data_reported_and_dropped_by_the_mobile_had_arrived():
    """
    Gi     | d4 d5 d6          d4'            d6'
    mobile |       a3 (d5, d6)     a5 (no d6)     a6
    """
    t = 5_000_000
    gone = sent(t, 4)
    lines = [*started(sack=True), gone, sent(t + 1000, 5), sent(t + 2000, 6)]
    lines += [acked(t + 800_000, 3, (5, 5)), acked(t + 900_000, 3, (5, 6))]
    lines += [sent(t + 1_000_000, 4), acked(t + 1_700_000, 5)]
    lines += [sent(t + 4_000_000, 6), acked(t + 4_700_000, 6)]
    assert [place for place, _ in lost([*lines, *later(60_000_000)])] == places(lines, gone)


def test_ack_sooner_than_any_round_trip_answers_the_only_copy_there_was():
    """The least round trip so far was of 700 ms, but jitter makes it shorter once.

    Gi     | (d4)  d5        d4'             d4''      d4 is lost on the Internet side
    mobile |           a3         a5                   450 ms after d4'; the server does not hear it
    """
    lines = [*started(), sent(4_000_000, 5), acked(4_700_000, 3), sent(6_000_000, 4)]
    lines += [acked(6_450_000, 5), sent(9_000_000, 4), acked(9_700_000, 5)]
    rows = tables([*lines, *later(60_000_000)])
    assert [(r["side"], r["seq"]) for r in rows["losses"]] == [("internet", 500 + 3 * DATA)]
    assert [r["needed"] for r in rows["retransmissions"]] == [True, False]


def test_fin_without_data_is_no_datas_original():
    """
    Gi     | (d4)  FIN        d4' with FIN       d4 is lost on the Internet side
    mobile |            a3               a4
    """
    lines = [*started(), Packet(4_000_000, "down", FIN, seq=500 + 4 * DATA, ack=300)]
    lines += [acked(4_600_000, 3), replace(sent(6_000_000, 4), flags=FIN)]
    lines += [replace(acked(6_700_000, 4), ack=501 + 4 * DATA)]
    (row,) = tables([*lines, *later(60_000_000)])["retransmissions"]
    assert (row["original_frame"], row["needed"]) == (None, True)


def silent(report: bool) -> list[Packet]:
    """d4 is retransmitted, for nothing, and reported. Then, after 9 s of silence, d5 is, and both ACKs
    of it may have been lost, or one and d5.

    Gi     | d4    d4'         d5             d5'
    mobile |   a4     a4 (d4)     (a5)            a5
    """
    lines = [*started(True), sent(4_000_000, 4), acked(4_700_000, 4), sent(5_000_000, 4)]
    lines += [acked(5_700_000, 4, (4, 4)), sent(6_000_000, 5), sent(15_000_000, 5)]
    blocks = [(5, 5)] if report else []
    return [*lines, acked(15_700_000, 5, *blocks), *later(60_000_000)]


@pytest.mark.parametrize(("report", "needed"), [(True, (False,)), (False, (None, True))])
def test_retransmission_is_not_needless_for_a_mobile_that_does_not_say_so(report, needed):
    rows = tables(silent(report))["retransmissions"]
    assert rows[0]["needed"] is False
    assert rows[1]["needed"] in needed
