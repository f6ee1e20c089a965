"""IP IDs show what a server sent that Gi did not see, or saw late; segments as in test_loss.

A server counts its packets by their IDs. A retransmission is a prime: d4' that Gi saw, (d4')
that it did not. The SYN ACK has the ID 0, as Linux's.
"""

from dataclasses import replace

import pytest

from spark_jobs.estimators.loss.evidence import EVIDENCE
from tests.helpers.packet_script import Packet, partition, tables
from tests.helpers.segments import (
    ACK,
    DATA,
    RTT_US,
    SLOT_US,
    acked,
    opened,
    sent,
    started,
    user_seen_at,
)

T = 5_000_000
FIRST = 5000
"""The counter begins anywhere."""
SECOND = 1_000_000
FIN = frozenset({"FIN", "ACK"})
SYN_ACK = frozenset({"SYN", "ACK"})


def counted(lines: list[Packet], *ids: int) -> list[Packet]:
    """The server's packets but for the SYN ACK have these IDs, and FIRST, in order of time, after
    d1, d2, d3 with 1, 2, 3."""
    left = iter((1, 2, 3, *ids))
    lines = sorted(lines, key=lambda p: p.us)
    made = [
        replace(p, id=FIRST + next(left)) if p.way == "down" and p.flags != SYN_ACK else p
        for p in lines
    ]
    assert next(left, None) is None
    return made


def losses(lines: list[Packet]) -> list[tuple[str, float]]:
    """(evidence, number of the segment) of each loss on the Internet side."""
    rows = tables([*lines, *user_seen_at(90 * SECOND)])["losses"]
    found = [r for r in rows if r["side"] == "internet"]
    assert all(r["probability"] == 1 for r in found)
    return [(r["evidence"], 1 + (r["seq"] - 500) / DATA) for r in found]


def without_data(at_us: int, number: int, flags: frozenset[str] = ACK) -> Packet:
    """The server sends no data; what it sends next is segment dN."""
    return Packet(at_us, "down", flags, seq=500 + DATA * (number - 1), ack=300)


def flight(first: int, last: int, at_us: int = T) -> list[Packet]:
    return [sent(at_us + 1000 * (n - first), n) for n in range(first, last + 1)]


def duplicates(count: int, at_us: int = T + RTT_US + SLOT_US) -> list[Packet]:
    return [acked(at_us + SLOT_US * n, 3) for n in range(count)]


# ---- overtaken, or retransmitted -----------------------------------------------------------------


def late(wait_us: int, *ids: int) -> list[Packet]:
    """
    Gi     | d4 d6       d5 d7     d5 was overtaken, or lost and retransmitted
    """
    lines = [*started(), sent(T, 4), sent(T + 1000, 6), sent(T + 1000 + wait_us, 5)]
    at = T + wait_us + SECOND
    return counted([*lines, sent(at, 7), acked(at + SECOND, 7)], *ids)


@pytest.mark.parametrize("wait_us", [40_000, 690_000, 3 * SECOND])
def test_id_distinguishes_an_overtaken_segment_from_a_retransmission(wait_us):
    overtaken = late(wait_us, 4, 6, 5, 7)
    assert losses(overtaken) == []
    assert tables(overtaken)["retransmissions"] == []
    retransmitted = late(wait_us, 4, 6, 7, 8)
    assert losses(retransmitted) == [("hole", 5)]
    assert len(tables(retransmitted)["retransmissions"]) == 1


def test_overtaken_retransmission_is_a_retransmission():
    """
    Gi     | d4 d6     d7 d5' d8     d5' has the ID before d7's, but after d6's
    """
    lines = [*started(), sent(T, 4), sent(T + 1000, 6), sent(T + 3 * SECOND, 7)]
    lines += [sent(T + 3 * SECOND + 1000, 5), sent(T + 4 * SECOND, 8), acked(T + 5 * SECOND, 8)]
    assert losses(counted(lines, 4, 6, 8, 7, 9)) == [("hole", 5)]


def test_retransmission_overtaken_by_another_was_not_skipped():
    """d6' overtakes d5' after an RTO expiry; d5' comes 3 s later."""
    lines = [*started(), *flight(4, 7), sent(T + 6 * SECOND, 4), acked(T + 6_700_000, 4)]
    lines += [sent(T + 6_800_000, 6), sent(T + 9_800_000, 5), acked(T + 16 * SECOND, 7)]
    assert losses(counted(lines, 4, 5, 6, 7, 8, 10, 9)) == []


@pytest.mark.parametrize(("stamp_ms", "rows"), [(-1, 0), (40, 1)])
def test_timestamp_identifies_an_overtaken_segment_where_ids_do_not(stamp_ms, rows):
    """d5 comes 3 s after d6; its timestamp is 1 ms older, or newer than d6's."""
    lines = late(3 * SECOND, *(0,) * 4)
    lines = [replace(p, tsval=p.us // 1000, tsecr=1, id=0) for p in lines]
    at = next(k for k, p in enumerate(lines) if p.us == T + 1000 + 3 * SECOND)
    lines[at] = replace(lines[at], tsval=T // 1000 + 1 + stamp_ms)
    found = tables(lines)
    assert len(found["retransmissions"]) == len(found["losses"]) == rows


# ---- the RTT on the Internet side ----------------------------------------------------------------


@pytest.mark.parametrize(("wait_us", "count"), [(850_000, 0), (950_000, 1)])
def test_rtt_of_a_request_separates_overtaken_segments_from_retransmissions(wait_us, count):
    """The SYN was not seen. d1 answers the request after 200 ms; 700 ms on the access side."""
    lines = [*started()[3:], *late(wait_us, *(0,) * 4)[len(started()) :]]
    lines = [replace(p, id=0) for p in lines]
    assert len(losses(lines)) == count


@pytest.mark.parametrize(("wait_us", "expected"), [(600_000, 0), (800_000, 0.5), (1_100_000, 1)])
def test_without_an_internet_side_rtt_a_late_segment_is_undecided(wait_us, expected):
    """700 ms on the access side; on the Internet side 300 ms at most."""
    lines = [*started()[4:], *late(wait_us, *(0,) * 4)[len(started()) :]]
    found = tables([replace(p, id=0) for p in lines])
    assert [r["probability"] for r in found["losses"]] == [expected] * (expected > 0)
    assert {r["evidence"] for r in found["losses"]} <= {"hole" if expected == 1 else "undecided"}
    assert found["flows"][0]["lost_internet"] == (expected == 1)


# ---- losses that only IDs show--------------------------------------------------------------------


def backed_off(*ids: int) -> list[Packet]:
    """
    Gi     | d4 d5 d6      (d4')          d4''          all was lost on the access side
    mobile |                                   a6
    """
    lines = [*started(), *flight(4, 6), sent(T + 9 * SECOND, 4), acked(T + 10 * SECOND, 6)]
    return counted(lines, *ids)


def test_missing_id_shows_a_lost_rto_retransmission():
    assert losses(backed_off(4, 5, 6, 8)) == [("ip_id", 4)]
    assert losses(backed_off(4, 5, 6, 7)) == []


def test_ids_may_wrap():
    lines = [*started(), *flight(4, 6), sent(T + 9 * SECOND, 4), acked(T + 10 * SECOND, 6)]
    ids = iter([65533, 65534, 65535, 0, 1, 2, 4])
    lines = [replace(p, id=next(ids)) if p.way == "down" and p.data else p for p in lines]
    assert losses(lines) == [("ip_id", 4)]


def test_missing_id_shows_a_lost_spurious_fast_retransmission():
    """
    Gi     | d4 ... d8               (d4')    d9       d4 was only late on the access side
    mobile |          a3 a3 a3 a3          a8    a9
    """
    at = T + RTT_US + SLOT_US + 5 * SLOT_US
    lines = [*started(), *flight(4, 8), *duplicates(4), acked(at, 8), sent(at + SLOT_US, 9)]
    lines += [acked(at + SECOND, 9)]
    assert losses(counted(lines, 4, 5, 6, 7, 8, 10)) == [("ip_id", 4)]
    assert losses(counted(lines, 4, 5, 6, 7, 8, 9)) == []


def test_missing_id_shows_the_lost_original_of_a_retransmission():
    """
    Gi     | d4        (d5)         d5'      nothing else shows that d5 was sent before
    mobile |     a4                     a5
    """
    lines = [*started(), sent(T, 4), acked(T + SECOND, 4), sent(T + 4 * SECOND, 5)]
    lines += [acked(T + 5 * SECOND, 5)]
    assert losses(counted(lines, 4, 6)) == [("ip_id", 5)]
    assert losses(counted(lines, 4, 5)) == []


def test_missing_ids_show_a_flight_that_was_lost_as_a_whole():
    """
    Gi     | d4        (d5 d6 d7 d8)          d5' d6' d7' d8'
    mobile |     a4
    """
    lines = [*started(), sent(T, 4), acked(T + SECOND, 4), *flight(5, 8, T + 4 * SECOND)]
    lines += [acked(T + 5 * SECOND, 8)]
    found = losses(counted(lines, 4, 9, 10, 11, 12))
    assert found == [("ip_id", n) for n in (5, 6, 7, 8)]


def test_missing_id_shows_a_lost_loss_probe_of_the_last_segment():
    """
    Gi     | d4 d5 d6         (d6')        d4'      with SACK (RFC 8985, 7.3)
    mobile |                                   a6
    """
    lines = [*started(sack=True), *flight(4, 6), sent(T + 4 * SECOND, 4), acked(T + 5 * SECOND, 6)]
    assert losses(counted(lines, 4, 5, 6, 8)) == [("ip_id", 6)]


def test_lost_new_data_before_a_retransmission_counts_once():
    """
    Gi     | d4 ... d8      (d9)         d4' d10       d9'      one ID is missing, before d4'
    mobile |           a3 a3    a3 a3
    """
    at = T + RTT_US + 5 * SLOT_US
    lines = [*started(), *flight(4, 8), *duplicates(4), sent(at, 4), sent(at + 1000, 10)]
    lines += [acked(at + SECOND, 8), sent(at + 2 * SECOND, 9), acked(at + 3 * SECOND, 10)]
    assert losses(counted(lines, 4, 5, 6, 7, 8, 10, 11, 12)) == [("hole", 9)]


def test_missing_id_in_go_back_n_skips_segments_reported_by_sack():
    """
    Gi     | d4 ... d8          d4' (d6') d7'      d5 is reported
    mobile |           a3(d5)
    """
    lines = [*started(sack=True), *flight(4, 8), acked(T + RTT_US + SLOT_US, 3, (5, 5))]
    at = T + 4 * SECOND
    lines += [sent(at, 4), sent(at + 1000, 7), acked(at + SECOND, 8)]
    assert losses(counted(lines, 4, 5, 6, 7, 8, 9, 11)) == [("ip_id", 6)]


# ---- lost packets without data -------------------------------------------------------------------


def second_request(*ids: int) -> list[Packet]:
    """
    Gi     | d4            (ack)  d5        the request had come before: an ACK says so at once
    mobile |     request a4           a5
    """
    lines = [*started(), sent(T, 4), Packet(T + 650_000, "up", ACK, seq=100, ack=3500, data=200)]
    lines += [acked(T + 700_000, 4), sent(T + 810_000, 5), acked(T + 2 * SECOND, 5)]
    return counted(lines, *ids)


def test_lost_ack_is_no_lost_data():
    assert losses(second_request(4, 6)) == []


def test_missing_id_is_a_retransmission_where_the_ack_was_seen():
    """
    Gi     | d4 d5         (d4')  ack    d6
    mobile |     request
    """
    lines = [*started(), *flight(4, 5)]
    lines += [Packet(T + 1_900_000, "up", ACK, seq=100, ack=3500, data=200)]
    lines += [without_data(T + 2 * SECOND, 6), acked(T + 2_400_000, 5), sent(T + 2_500_000, 6)]
    lines += [acked(T + 4 * SECOND, 6)]
    assert losses(counted(lines, 4, 5, 7, 8)) == [("ip_id", 4)]


@pytest.mark.parametrize("sack", [False, True])
def test_lost_fin_is_no_lost_data(sack):
    """
    Gi     | d4        (fin)    fin
    mobile |     a4
    """
    lines = [*started(sack), sent(T, 4), acked(T + SECOND, 4), without_data(T + 4 * SECOND, 5, FIN)]
    lines += [replace(acked(T + 5 * SECOND, 4), ack=4501)]
    assert losses(counted(lines, 4, 6)) == []


def test_lost_fin_before_a_retransmission_is_no_lost_data():
    """
    Gi     | d4 d5 (fin)       d4'    ack: its number is after the FIN's
    """
    lines = [*started(), *flight(4, 5), sent(T + 4 * SECOND, 4), acked(T + 5 * SECOND, 5)]
    lines += [replace(without_data(T + 6 * SECOND, 6), seq=5501)]
    assert losses(counted(lines, 4, 5, 7, 8)) == []


def test_lost_keep_alive_is_no_lost_data():
    """
    Gi     | d4       k    (k)    d5      a keep-alive repeats the last number
    mobile |     a4     a4             a5
    """
    lines = [*started(), sent(T, 4), acked(T + SECOND, 4)]
    lines += [replace(without_data(T + 9 * SECOND, 5), seq=4499), acked(T + 10 * SECOND, 4)]
    lines += [sent(T + 30 * SECOND, 5), acked(T + 31 * SECOND, 5)]
    assert losses(counted(lines, 4, 5, 7)) == []


def test_id_gap_in_time_wait_is_no_loss():
    lines = [*started(), sent(T, 4), acked(T + SECOND, 4), without_data(T + 1_100_000, 5, FIN)]
    lines += [Packet(T + 2 * SECOND, "up", FIN, seq=300, ack=4501)]
    lines += [replace(without_data(T + 2_100_000, 5), seq=4501, ack=301)]
    assert losses(counted(lines, 4, 5, 25)) == []


# ---- how the host counts IDs --------------------------------------------------------------------


def test_syn_ack_id_shows_that_a_host_counts_packets_to_all_peers():
    """The SYN ACK's ID is the one before d1's: what was sent to others lies between d6 and d4'."""
    lines = backed_off(14, 15, 16, 18)
    lines = [replace(p, id=p.id + 10 * (0 < p.id - FIRST < 4)) for p in lines]
    assert losses(lines) == [("ip_id", 4)]
    lines = [replace(p, id=FIRST + 10) if p.flags == SYN_ACK else p for p in lines]
    assert losses(lines) == []
    first = [replace(p, id=p.id and p.id - FIRST - 10) for p in lines]
    assert losses(first) == []


@pytest.mark.parametrize(
    "ids",
    [
        (0,) * 7,
        (7, 60000, 300, 21000, 5, 40000, 40002),
        (0x0100, 0x0200, 0x0300, 0x0400, 0x0500, 0x0600, 0x0800),
    ],
)
def test_ids_that_do_not_count_up_give_no_losses(ids):
    """0; random; in the wrong byte order."""
    left = iter(ids)
    lines = [
        replace(p, id=next(left)) if p.way == "down" and p.data else p
        for p in backed_off(4, 5, 6, 8)
    ]
    assert losses(lines) == []


def test_frequent_gaps_are_packets_to_other_peers():
    """Between one segment and the next, each acknowledged at once, the server sends to others."""
    lines, ids = opened(), []
    for n in range(1, 10):
        at = 900_000 + n * 720_000
        lines += [sent(at, n), acked(at + RTT_US + SLOT_US, n)]
        ids.append(n + (n > 3) + (n > 5) + (n > 7))
    lines += [sent(9 * SECOND, 10), sent(12 * SECOND, 10), acked(13 * SECOND, 10)]
    assert losses(counted(lines, *ids[3:], 13, 15)) == []


def test_losses_are_found_after_the_counter_restarts():
    """After d6 another server answers from the same address; then d8' is lost."""
    lines = [*started(), *flight(4, 6), acked(T + SECOND, 6), *flight(7, 9, T + 1_100_000)]
    lines += [sent(T + 9 * SECOND, 7), acked(T + 10 * SECOND, 9)]
    ids = (4, 5, 6, 30007, 30008, 30009, 30011)
    assert losses(counted(lines, *ids)) == [("ip_id", 7)]


# ---- against the other evidence, drops, sums ---------------------------------------------------


def test_late_retransmission_without_a_missing_id_was_not_lost():
    """
    Gi     | d4 ... d8                 d4'      late, but the ACKs were lost on the way
    mobile |           a3 a3 a3 a3         a8
    """
    lines = [*started(), *flight(4, 8), *duplicates(4), sent(T + 6 * SECOND, 4)]
    lines += [acked(T + 7 * SECOND, 8)]
    assert losses(counted(lines, 4, 5, 6, 7, 8, 10)) == [("timeout", 4)]
    assert losses(counted(lines, 4, 5, 6, 7, 8, 9)) == []


def test_id_gap_is_undecided_where_the_capture_drops_packets():
    """
    Gi     | d4 d5 d6      (d4')          d4''     d8      d9 d11      d10'
    mobile |                                   a6      a8         a9        a11

    d7 was dropped, d10 lost: so was d4', or lost, with the same chance.
    """
    lines = [*backed_off(4, 5, 6, 8), sent(T + 12 * SECOND, 8), acked(T + 13 * SECOND, 8)]
    lines += [sent(T + 14 * SECOND, 9), sent(T + 14 * SECOND + 1000, 11)]
    lines += [acked(T + 15 * SECOND, 9), sent(T + 18 * SECOND, 10), acked(T + 19 * SECOND, 11)]
    new = iter(FIRST + n for n in (10, 11, 13, 14))
    lines = [
        replace(p, id=next(new)) if p.way == "down" and p.us > T + 11 * SECOND else p for p in lines
    ]
    made = partition([*lines, *user_seen_at(90 * SECOND)])
    losses = made.internet_losses.losses
    assert sorted((EVIDENCE[row["evidence"]], row["probability"]) for row in losses) == [
        ("hole", 1.0),
        ("ip_id", 0.5),
    ]
    rows = tables([*lines, *user_seen_at(90 * SECOND)])  # too much is missing to report losses
    assert [row["side"] for row in rows["losses"]] == []
    assert rows["flows"][0]["lost_internet_expected"] is None


def test_transmissions_without_evidence_enter_the_expected_losses():
    """Without IDs: one of the 9 packets that came had been lost, so of 3 transmissions 3/9 were,
    too."""
    lines = [*started(), *flight(4, 5), sent(T + 3000, 7)]
    lines += [*flight(4, 6, T + 9 * SECOND), acked(T + 10 * SECOND, 7)]
    (row, _) = tables([*lines, *user_seen_at(90 * SECOND)])["flows"]
    assert (row["lost_internet"], row["lost_internet_expected"]) == (1, pytest.approx(1 + 3 / 9))
    (row, _) = tables([*counted(lines, 4, 5, 7, 8, 9, 10), *user_seen_at(90 * SECOND)])["flows"]
    assert (row["lost_internet"], row["lost_internet_expected"]) == (1, 1)


@pytest.mark.parametrize(("window", "kinds"), [(400, []), (1000, ["tail"])])
def test_sender_that_waits_for_window_room_has_no_lost_tail(window, kinds):
    """
    Gi     | d4       d5      1 s later, though d4 had no PSH: silly window avoidance
    mobile |     a4
    """
    lines = [*started(), sent(T, 4), replace(acked(T + SECOND, 4), win=window)]
    lines += [sent(T + 2 * SECOND, 5), acked(T + 3 * SECOND, 5)]
    pushed = frozenset({"PSH", "ACK"})
    lines = [replace(p, flags=pushed) if p.data and p.us != T else p for p in lines]
    assert [kind for kind, _ in losses(lines)] == kinds


def test_first_packet_is_no_retransmission_if_its_id_is_small():
    """A counter may begin anywhere; d1 is the answer to the request, 2 s later."""
    at = {n: 3 * SECOND * n for n in (1, 2, 3)}
    answers = [replace(sent(at[n], n), id=6 + n) for n in at]
    acks = [acked(at[n] + RTT_US + SLOT_US, n) for n in at]
    rows = tables([*opened(), *answers, *acks])
    assert (rows["flows"][0]["retransmissions"], rows["retransmissions"]) == (0, [])
