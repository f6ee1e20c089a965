"""Losses on the access side where mobiles, senders and paths behave unusually, in short exchanges
of segments (see `segments`); what follows # or stands in brackets is what became of a packet.
"""

from dataclasses import replace

import pytest

from tests.helpers.packet_script import Packet, partition, tables
from tests.helpers.replies import MS, SECOND
from tests.helpers.segments import RTT_US, SLOT_US, acked, lost, opened, sent, started, user_seen_at

T = 30 * SECOND
"""When the unusual part begins, after an ordinary one."""


def lost_packets(lines: list[Packet], seconds: int = 60) -> list[Packet]:
    """The packets that the estimator finds lost on the access side; the user is observed for so
    many seconds more."""
    after = user_seen_at(lines[-1].us + seconds * SECOND) if seconds else []
    return [lines[place] for place, _ in lost([*lines, *after])]


def in_pairs(pairs: int) -> list[Packet]:
    """d1 d2, d3 d4, ...: the mobile acknowledges every second segment (RFC 9293, 3.8.6.3)."""
    lines = opened()
    for n in range(1, 2 * pairs, 2):
        at = 1_000_000 * n
        lines += [sent(at, n), sent(at + MS, n + 1), acked(at + RTT_US + 2 * SLOT_US, n + 1)]
    return lines


def test_ack_of_a_spurious_retransmission_may_merge_with_a_delayed_ack():
    """The link stood still. d13 came in order, its ACK waited for a second segment; then d11'
    came and called for an ACK at once.

    Gi     | d11 d12 d13 ... d11'
    mobile |                     a12    a13
    """
    d11, retransmission = sent(T, 11), sent(T + 2000 * MS, 11)
    lines = [*in_pairs(5), d11, sent(T + MS, 12), sent(T + 2 * MS, 13), retransmission]
    lines += [acked(T + 2500 * MS, 12), acked(T + 2700 * MS, 13)]
    assert lost_packets(lines) == []


def test_spurious_retransmission_without_an_answer_of_a_prompt_mobile_was_lost():
    """a13 comes 500 ms after d11', sooner than any round trip, and no other ACK comes.

    Gi     | d11 d12 d13 ... d11'
    mobile |                     a11 a12 a13
    """
    retransmission = sent(T + 2000 * MS, 11)
    lines = [*started(first=10), *(sent(T + n * MS, 11 + n) for n in range(3)), retransmission]
    lines += [acked(T + 2300 * MS + n * SLOT_US, 11 + n) for n in range(3)]
    assert lost_packets(lines) == [retransmission]


def test_delayed_ack_does_not_wait_until_an_rto_expiry():
    """An ACK waits for a second segment, but for 500 ms at most (RFC 9293, 3.8.6.3): a11 answers
    d11', not the d11 that came 1.5 s before.

    Gi     | d11 (lost)     d11'
    mobile |                     a11
    """
    d11 = sent(T, 11)
    lines = [*in_pairs(5), d11, sent(T + 1500 * MS, 11), acked(T + 2200 * MS, 11)]
    assert lost_packets(lines) == [d11]


@pytest.mark.parametrize("reports", [False, True])
def test_plain_duplicate_ack_answers_a_retransmission_unless_the_mobile_sends_d_sacks(reports):
    """The last ACK also moves the window: it may be an update that answers nothing."""
    lines, retransmission = in_doubt(reports)
    assert lost_packets(lines) == ([retransmission] if reports else [])


def in_doubt(reports: bool) -> tuple[list[Packet], Packet]:
    """Originals whose ACKs are late, but sooner after the retransmission than any round trip.

    Gi     | d4 ... d4'               d5 ... d5'
    mobile |           a4  a4 (d4)              a5  a5 (with another window)
    """
    lines = started(True)
    for n in (4, 5) if reports else (4,):
        at = n * 5_000_000
        retransmission = sent(at + 1000 * MS, n)
        lines += [sent(at, n), retransmission, acked(at + 1200 * MS, n)]
        last = acked(at + 1800 * MS, n)
        if reports and n == 4:
            lines.append(acked(at + 1800 * MS, n, (n, n)))
        else:
            lines.append(replace(last, win=9000))
    return lines, retransmission


def stamped(lines: list[Packet]) -> list[Packet]:
    """With timestamps: the server's clock counts ms, the mobile echoes what was sent last, unless
    `tsecr` says otherwise."""
    out, newest = [], 1
    for p in lines:
        value = p.us // MS + 1 if p.tsval is None else p.tsval
        if p.way == "down":
            newest = max(newest, value)
            out.append(replace(p, tsval=value, tsecr=1))
        else:
            out.append(replace(p, tsval=value, tsecr=p.tsecr or newest))
    return out


@pytest.mark.parametrize("number", [4, 5], ids=["before the last", "the last"])
@pytest.mark.parametrize("newer", [False, True], ids=["kept", "taken"])
def test_old_data_is_no_loss_whether_or_not_it_changes_ts_recent(number, newer):
    """RFC 7323, 4.3, asks only that it begins below the last ACK; by 5.3 PAWS drops it first.

    Gi     | d4 d5        d4' or d5'
    mobile |       a4 a5             a5 (echoes d5's timestamp, or the retransmission's)
    """
    t = 5_000_000
    retransmission = replace(sent(t + 1000 * MS, number), tsval=6_000)
    answer = replace(acked(t + 1700 * MS, 5), tsecr=6_000 if newer else 5_001)
    lines = [*started(), replace(sent(t, 4), tsval=5_000), replace(sent(t + MS, 5), tsval=5_001)]
    lines += [
        replace(acked(t + 700 * MS, 4), tsecr=5_000),
        acked(t + 800 * MS, 5),
        retransmission,
        answer,
    ]
    assert lost_packets(stamped(lines)) == []


def test_overtaken_segment_reported_in_its_own_sack_block_had_arrived():
    """d5 is late on the Internet side. After an RTO expiry the server discards all blocks (RFC
    2018, 8).

    Gi     | d4 (lost)  d6 (lost)  d7  d5  d8  d9  d10           d4' d5' d6'
    mobile |              a3 of d7, of d5, of d8, of d9, of d10      a5  a5 (D-SACK of d5)  a10
    """
    t = 5_000_000
    d4, d6, d7, d5 = (sent(t + k * MS, n) for k, n in enumerate((4, 6, 7, 5)))
    lines = [*started(True), d4, d6, d7, d5, *(sent(t + n * MS, n) for n in (8, 9, 10))]
    lines += [acked(t + 700 * MS, 3, (7, 7)), acked(t + 800 * MS, 3, (5, 5), (7, 7))]
    lines += [acked(t + (900 + 100 * k) * MS, 3, (7, 8 + k), (5, 5)) for k in range(3)]
    lines += [sent(t + (3000 + k) * MS, n) for k, n in enumerate((4, 5, 6))]
    lines += [acked(t + 3700 * MS, 5, (7, 10)), acked(t + 3800 * MS, 5, (5, 5), (7, 10))]
    lines += [acked(t + 3900 * MS, 10)]
    assert lost_packets(lines) == [d4, d6]


@pytest.mark.parametrize("older", [True, False])
def test_overtaken_segment_that_paws_drops_had_arrived(older):
    """d6 was sent before d4', whose newer timestamp the mobile has by then (RFC 7323, 5.3), and is
    dropped; or it was sent after d4', and is lost.

    Gi     | d4 (lost)  d5       d4' d6 d7           d6'
    mobile |               a3              a5 (a5) a5    a7
    """
    t = 5_000_000
    d4, d6 = sent(t, 4), replace(sent(t + 1001 * MS, 6), tsval=5_990 if older else 6_001)
    lines = [*started(), d4, sent(t + MS, 5), acked(t + 700 * MS, 3)]
    lines += [replace(sent(t + 1000 * MS, 4), tsval=6_000), d6]
    lines += [replace(sent(t + 1002 * MS, 7), tsval=6_002)]
    answers = [acked(t + (1700 + 100 * k) * MS, 5) for k in range(3 if older else 2)]
    lines += [replace(answer, tsecr=6_000) for answer in answers]
    lines += [replace(sent(t + 2500 * MS, 6), tsval=7_500)]
    lines += [replace(acked(t + 3200 * MS, 7), tsecr=7_500)]
    assert [p.us for p in lost_packets(stamped(lines))] == [
        p.us for p in ([d4] if older else [d4, d6])
    ]


FULL, WITH_GAPS = SLOT_US / 1040, 2 * SLOT_US / 1040
"""The link's time a byte, and the time from one segment to the next where there are gaps (µs/B)."""


@pytest.mark.parametrize(("full", "pace"), [(60, FULL), (0, WITH_GAPS)])
def test_pace_is_measured_where_the_queue_was_filled(full, pace):
    """150 segments 200 ms apart, whose ACKs the radio holds back by 250 ms: each comes when the
    next has passed Gi by a round trip, though the link rests for half of the time. Then 60 at once,
    which wait for each other. If there are none, the gaps are not found."""
    lines, at = opened(), 1_000_000
    for n in range(1, 151):
        at += 2 * SLOT_US
        lines += [sent(at, n), acked(at + RTT_US + 250 * MS, n)]
    at += 2_000_000
    for n in range(1, full + 1):
        lines += [sent(at + n, 150 + n), acked(at + RTT_US + n * SLOT_US, 150 + n)]
    (path,) = partition(sorted(lines, key=lambda p: p.us)).paths
    assert path["pace"] == pytest.approx(pace, rel=0.02)


def test_undecided_transmissions_of_one_connection_do_not_affect_the_next():
    """Of the first, no ACK passes Gi and each segment comes twice: nothing can be inferred. Of the
    next, Gi saw each segment once, but missed the first transmission of d4; a5 comes too soon for
    the other.

    Gi     | (d4)  d5  d4      d6
    mobile |               a5      a6
    """
    silent = [replace(sent(n * SLOT_US, n), port=999) for n in range(1, 21)]
    silent += [p.later(10 * SECOND) for p in silent]
    t = 40 * SECOND
    lines = [*silent, *(p.later(30 * SECOND) for p in started())]
    lines += [sent(t, 5), sent(t + 600 * MS, 4), acked(t + 700 * MS, 5)]
    lines += [sent(t + 5 * SECOND, 6), acked(t + 5 * SECOND + RTT_US + SLOT_US, 6)]
    assert lost_packets(lines) == []


def mobile_acks(transmissions: list[Packet], missed: list[Packet]) -> list[Packet]:
    """The ACKs of a mobile without SACK that answers each transmission it gets; the link is a
    FIFO."""
    have: set[int] = set()
    out: list[Packet] = []
    first, free = 4, 0
    for packet in transmissions:
        if packet in missed:
            continue
        free = max(free, packet.us + RTT_US) + SLOT_US
        have.add((packet.seq - 500) // 1000 + 1)
        while first in have:
            first += 1
        out.append(acked(free, first - 1))
    return out


def with_acks(transmissions: list[Packet], missed: list[Packet]) -> list[Packet]:
    return sorted(
        [*started(), *transmissions, *mobile_acks(transmissions, missed)], key=lambda p: p.us
    )


@pytest.mark.parametrize("end", [False, True], ids=["", "at the capture's end"])
def test_whole_window_lost_and_retransmitted_is_all_losses(end):
    """d4 ... d15 are lost; after an RTO expiry each is retransmitted, twice as many each round
    trip, and acknowledged. The ACKs are too slow for a link that had only stood still."""
    flight = [sent(T + n * MS, 4 + n) for n in range(12)]
    rounds = [(0, 4), (1, 5), (1, 6), (2, 7), (2, 8), (2, 9), (2, 10)]
    rounds += [(3, n) for n in range(11, 16)]
    retransmission = [sent(T + 3_000_000 + r * 1_500_000 + n * MS, n) for r, n in rounds]
    lines = with_acks([*flight, *retransmission], flight)
    assert lost_packets(lines, 0 if end else 60) == flight


def test_losses_are_undecided_after_the_mobile_falls_silent():
    """Its uplink died: d5 and d6, retransmitted repeatedly, may arrive all the same. What is sent
    to it in other connections decides nothing, either.

    Gi     | d4    d5 d6 ... d5' ... d5'' ...  (60 s on, of another connection) d4
    mobile |    a4
    """
    lines = [*started(), sent(T, 4), acked(T + RTT_US + SLOT_US, 4)]
    lines += [sent(T + 2 * SECOND + at, n) for at, n in ((0, 5), (MS, 6))]
    lines += [sent(T + at * SECOND, 5) for at in (4, 8, 16, 32)]
    lines += [replace(sent(T + 60 * SECOND, 4), port=3000)]
    assert {evidence for _, evidence in lost(lines)} == {"undecided"}


@pytest.mark.parametrize(("was_sent", "missed"), [(True, 1), (False, 11)])
def test_mobiles_ip_ids_show_whether_acks_were_sent(was_sent, missed):
    """d4 is lost; of 30 transmissions after it the first ten are not answered, and the user is
    known for losses in a row. If the mobile's IP IDs lack ten, it had sent as many ACKs all the
    same; if they count on, it had got nothing.

    Gi     | d4 (lost) d5 ... d34
    mobile |                      (10 x a3)  20 x a3
    """
    in_a_row = [sent(T + n * MS, 4 + n) for n in range(40)]
    retransmission = [sent(T + (10 + n) * SECOND, 4 + n) for n in range(39)]
    other = [replace(p, port=3000) for p in with_acks([*in_a_row, *retransmission], in_a_row[:-1])]
    lines = [p.later(100 * SECOND) for p in ten_acks_are_not_seen(was_sent)]
    assert expected_losses([*other, *lines]) == pytest.approx(39 + missed, abs=0.5)


def test_missing_ip_ids_used_by_another_connection_are_no_acks():
    """The mobile counts what it sends to all servers. Ten IDs are missing between two ACKs; if an
    ACK of another connection came with each, none of this one was sent."""
    lines = ten_acks_are_not_seen(was_sent=False)
    first = next(p for p in lines if p.way == "up" and p.us > T)
    lines = [replace(p, id=p.id + 10) if p.way == "up" and p.us > T else p for p in lines]
    other = [replace(first, us=T + n * MS, id=first.id + n, port=3000) for n in range(10)]
    assert expected_losses(lines) == pytest.approx(1, abs=0.5)
    lines = sorted([*lines, *other], key=lambda p: p.us)
    assert expected_losses(lines) == pytest.approx(11, abs=0.5)


def ten_acks_are_not_seen(was_sent: bool) -> list[Packet]:
    """The exchange of `test_mobiles_ip_ids_show_whether_acks_were_sent`, with the mobile's IP
    IDs."""
    flight = [sent(T + n * MS, 4 + n) for n in range(31)]
    lines = with_acks(flight, flight[:1] if was_sent else flight[:11])
    ups = [replace(p, id=100 + n) for n, p in enumerate(p for p in lines if p.way == "up")]
    if was_sent:
        first = next(n for n, p in enumerate(ups) if p.us > T)
        del ups[first : first + 10]
    downs = [p for p in lines if p.way == "down"]
    return sorted([*downs, *ups], key=lambda p: p.us)


def expected_losses(lines: list[Packet]) -> float:
    """The expected losses on the access side; the user is observed for another minute."""
    rows = tables([*lines, *user_seen_at(lines[-1].us + 60 * SECOND)])["losses"]
    return sum(r["probability"] for r in rows if r["side"] == "access")


def test_arrival_of_a_pure_ack_proves_no_arrival_of_data():
    """A pure ACK bears the number of what comes next. That it came is no sign that d5 ... d7, which
    were sent before it, did: d5' does not fill a hole, its ACK waits for d6'.

    Gi     | d5 d6 d7 (lost)  ack  d5' d6' d7'
    mobile |                                   a6 a7
    """
    flight = [sent(T + n * MS, 5 + n) for n in range(3)]
    retransmission = [sent(T + 8 * SECOND + n * MS, 5 + n) for n in range(3)]
    pure = replace(sent(T + 3 * MS, 8), data=0)
    t = T + 8 * SECOND + RTT_US
    lines = [*in_pairs(2), *flight, pure, *retransmission]
    for n, slot, echo in ((6, 2, 0), (7, 3, 2)):
        lines.append(replace(acked(t + slot * SLOT_US, n), tsecr=retransmission[echo].us // MS + 1))
    lines = stamped(lines)
    assert [p.us for p in lost_packets(lines)] == [p.us for p in flight]


def test_shorter_rtt_of_a_retransmission_makes_it_no_loss():
    """The radio has become faster: d5' is answered sooner than anything before. SACK reported d6
    first, so d5 was lost; d5' was not.

    Gi     | d5 (lost) d6              d5' d7
    mobile |               a4 {d6}           a6 a7
    """
    d5, d6, retransmission = sent(T, 5), sent(T + MS, 6), sent(T + 2 * SECOND, 5)
    before = [p for p in started(True, 4) if p.us < T]
    lines = [*before, d5, d6, acked(T + RTT_US + SLOT_US, 4, (6, 6)), retransmission]
    lines += [sent(T + 2 * SECOND + MS, 7)]
    lines += [acked(T + 2 * SECOND + n * RTT_US // 3, 6 + n - 1) for n in (1, 2)]
    assert lost_packets(lines) == [d5]


def test_rtt_of_the_last_sack_block_bounds_what_must_be_lost():
    """The queue grows; then the mobile is heard no more, though another of its connections was a
    little before. Its last ACK, for d12, took 3 s: what was sent after d12 need not be lost.

    Gi     | d4 (lost) d5 ... d12      d13 ... d20
    mobile |                {d5} ... {d5-d12}
    """
    flight = [sent(T + n * 100 * MS, 4 + n) for n in range(17)]
    acks = [acked(T + 1_000 * MS + n * 400 * MS, 3, (5, 5 + n)) for n in range(8)]
    lines = sorted([*started(True), *flight, *acks], key=lambda p: p.us)
    rows = [r for r in tables(lines)["losses"] if r["side"] == "access"]
    assert [r["evidence"] for r in rows if r["probability"] > 0.5] == ["order"]


def test_ack_is_not_assumed_to_wait_longer_than_delayed_acks_do():
    """The window holds three segments. d42 was lost, so d41's ACK was sent when d43 came; had d42
    come, three segments would have waited 4 s for theirs.

    Gi     | d41 d42 (lost) d43              d42'
    mobile |                    a41              a43  a43 (with more room)
    """
    d42, retransmission = sent(50 * SECOND + MS, 42), sent(54 * SECOND, 42)
    lines = [*in_pairs(20), sent(50 * SECOND, 41), d42, sent(50 * SECOND + 10 * MS, 43)]
    lines += [acked(50 * SECOND + RTT_US + 2 * SLOT_US, 41), retransmission]
    a43 = acked(54 * SECOND + RTT_US + SLOT_US, 43)
    lines += [a43, replace(a43, us=a43.us + 20 * MS, win=12000)]
    assert lost_packets(lines) == [d42]


def test_number_of_losses_is_known_where_the_lost_segments_are_undecided():
    """Of d5 ... d13 six arrived, out of order; then the capture ends. That three were lost is
    certain, which ones is not."""
    flight = [sent(T + n * MS, 4 + n) for n in range(10)]
    retransmission = sent(T + 12 * SECOND, 4)
    lines = with_acks([*flight, retransmission], [flight[0], *flight[3:6]])
    rows = [r for r in tables(lines)["losses"] if r["side"] == "access"]
    assert {r["evidence"] for r in rows} == {"order", "counted"}
    assert sum(r["probability"] for r in rows) == pytest.approx(4, abs=0.1)


def test_queue_shows_which_of_two_transmissions_was_lost():
    """The radio lost d4', the original waited in the queue after another connection's packets; its
    ACK comes in its turn, long before that of d4' had its.

    Gi     | (30 others)  d4  (20 others)  d4'
    mobile |                      30 x a        a4    20 x a
    """
    t = T
    d4, retransmission = sent(t + 40 * MS, 4), sent(t + 2_500 * MS, 4)
    other = [replace(p, port=3000) for p in started()]
    busy = [replace(sent(t + n * MS, 3 + n), port=3000) for n in range(1, 31)]
    busy += [replace(sent(t + (50 + n) * MS, 33 + n), port=3000) for n in range(1, 21)]
    lines = [*started(), *other, *busy, d4, retransmission]
    free = t + RTT_US
    for packet in sorted([*busy, d4], key=lambda p: p.us):
        free += SLOT_US
        lines += [replace(acked(free, (packet.seq - 500) // 1000 + 1), port=packet.port)]
    assert lost_packets(sorted(lines, key=lambda p: p.us)) == [retransmission]


def test_losses_of_a_sender_that_sends_on_during_recovery_are_found():
    """BBR does not slow down for a loss, and without SACK it fills a hole a round trip: d6 and d9
    of d4 ... d30, paced as the link is, are lost."""
    transmissions = [sent(T + n * SLOT_US, 4 + n) for n in range(27)]
    d6, d9 = transmissions[2], transmissions[5]
    retransmission = [sent(T + 1350 * MS, 6), sent(T + 2250 * MS, 9)]
    transmissions = sorted([*transmissions, *retransmission], key=lambda p: p.us)
    assert lost_packets(with_acks(transmissions, [d6, d9])) == [d6, d9]


NOT_WIDE_ENOUGH = pytest.mark.xfail(
    strict=True,
    reason="64 hypotheses are too few, too: all transmissions but one are reported lost",
)


@pytest.mark.parametrize("last", [24, pytest.param(90, marks=NOT_WIDE_ENOUGH)])
def test_lost_duplicate_acks_are_not_taken_for_lost_data(last):
    """d4 is lost, and so are four of the duplicate ACKs for the others: each hypothesis that loses
    other four costs the same. After an RTO expiry all is retransmitted, and each retransmission
    answered: the first fills the only hole. So d4 is lost and, for all that the duplicates show,
    four more.

    Gi     | d4 ... d44                  d4' ... d44'
    mobile |            a3 (36 of 40)                a44 (41 times)
    """
    flight = [sent(T + n * MS, n) for n in range(4, last + 1)]
    retransmission = [p.later((last + 10) * SLOT_US) for p in flight]
    lines = with_acks([*flight, *retransmission], flight[:1])
    unseen = [p for p in lines if p.way == "up" and p.us > T][2:21:6]
    found = lost_packets([p for p in lines if p not in unseen])
    assert flight[0] in found
    assert len(found) <= 1 + len(unseen)


def test_one_loss_of_a_window_of_thousands_of_segments_is_found():
    """d11 is lost; 3000 segments follow before its retransmission, each answered by a SACK block.
    Searches that are bounded reach so far.
    """
    lines = started(sack=True, first=10)
    step = RTT_US // 3000
    lines.append(sent(T, 11))
    for n in range(12, 3012):
        at = T + n * step
        lines += [sent(at, n), acked(at + RTT_US + SLOT_US, 10, (12, n))]
    later = T + 4 * RTT_US
    lines += [sent(later, 11), acked(later + RTT_US + SLOT_US, 3011)]
    lines.sort(key=lambda line: line.us)
    assert [lines.index(sent(T, 11))] == [place for place, _ in lost(lines)]
