"""Losses on the access side where mobiles, senders and paths have habits of their own, on short exchanges of
segments (see `segments`); what follows # or stands in brackets is what became of a packet.
"""

from dataclasses import replace

import pytest
from packet_script import Packet, partition, tables
from replies import MS, SECOND
from segments import RTT_US, SLOT_US, acked, later, lost, opened, sent, started

T = 30 * SECOND
"""When it begins, after what is as always."""


def gone(lines: list[Packet], seconds: int = 60) -> list[Packet]:
    """The packets lost on the access side, by the estimator; the user is observed for so much longer."""
    after = later(lines[-1].us + seconds * SECOND) if seconds else []
    return [lines[place] for place, _ in lost([*lines, *after])]


def in_pairs(pairs: int) -> list[Packet]:
    """d1 d2, d3 d4, ...: the mobile acknowledges every second segment (RFC 9293, 3.8.6.3)."""
    lines = opened()
    for n in range(1, 2 * pairs, 2):
        at = 1_000_000 * n
        lines += [sent(at, n), sent(at + MS, n + 1), acked(at + RTT_US + 2 * SLOT_US, n + 1)]
    return lines


def test_needless_retransmissions_ack_merges_into_the_one_that_waited():
    """The link stood still. d13 came in order, its ACK waited for a second segment; then d11 came
    again and called for an ACK at once.

    Gi     | d11 d12 d13 ... d11'
    mobile |                     a12    a13
    """
    d11, again = sent(T, 11), sent(T + 2000 * MS, 11)
    lines = [*in_pairs(5), d11, sent(T + MS, 12), sent(T + 2 * MS, 13), again]
    lines += [acked(T + 2500 * MS, 12), acked(T + 2700 * MS, 13)]
    assert gone(lines) == []


def test_needless_retransmission_that_a_mobile_which_never_waits_did_not_answer_was_lost():
    """a13 comes 500 ms after d11', sooner than any round trip, and no other ACK comes.

    Gi     | d11 d12 d13 ... d11'
    mobile |                     a11 a12 a13
    """
    again = sent(T + 2000 * MS, 11)
    lines = [*started(first=10), *(sent(T + n * MS, 11 + n) for n in range(3)), again]
    lines += [acked(T + 2300 * MS + n * SLOT_US, 11 + n) for n in range(3)]
    assert gone(lines) == [again]


def test_no_ack_waits_for_a_timeout():
    """An ACK waits for a second segment, but for 500 ms at most (RFC 9293, 3.8.6.3): a11 answers
    d11', not the d11 that came 1.5 s before.

    Gi     | d11 (lost)     d11'
    mobile |                     a11
    """
    d11 = sent(T, 11)
    lines = [*in_pairs(5), d11, sent(T + 1500 * MS, 11), acked(T + 2200 * MS, 11)]
    assert gone(lines) == [d11]


@pytest.mark.parametrize("reports", [False, True])
def test_plain_duplicate_answers_a_copy_unless_the_mobile_sends_d_sacks(reports):
    """The last ACK also moves the window: it may be an update that answers nothing."""
    lines, again = in_doubt(reports)
    assert gone(lines) == ([again] if reports else [])


def in_doubt(reports: bool) -> tuple[list[Packet], Packet]:
    """Originals whose ACKs are late, but sooner after the retransmission than any round trip.

    Gi     | d4 ... d4'               d5 ... d5'
    mobile |           a4  a4 (d4)              a5  a5 (with another window)
    """
    lines = started(True)
    for n in (4, 5) if reports else (4,):
        at = n * 5_000_000
        again = sent(at + 1000 * MS, n)
        lines += [sent(at, n), again, acked(at + 1200 * MS, n)]
        last = acked(at + 1800 * MS, n)
        if reports and n == 4:
            lines.append(acked(at + 1800 * MS, n, (n, n)))
        else:
            lines.append(replace(last, win=9000))
    return lines, again


def stamped(lines: list[Packet]) -> list[Packet]:
    """With timestamps: the server's clock counts ms, the mobile echoes what was sent last, unless
    it is told otherwise."""
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
def test_old_data_may_change_ts_recent_or_not(number, newer):
    """RFC 7323, 4.3, asks only that it begins below the last ACK; by 5.3 it is refused before.

    Gi     | d4 d5        d4' or d5'
    mobile |       a4 a5             a5 (echoes d5's timestamp, or the retransmission's)
    """
    t = 5_000_000
    again = replace(sent(t + 1000 * MS, number), tsval=6_000)
    answer = replace(acked(t + 1700 * MS, 5), tsecr=6_000 if newer else 5_001)
    lines = [*started(), replace(sent(t, 4), tsval=5_000), replace(sent(t + MS, 5), tsval=5_001)]
    lines += [replace(acked(t + 700 * MS, 4), tsecr=5_000), acked(t + 800 * MS, 5), again, answer]
    assert gone(stamped(lines)) == []


def test_overtaken_segment_in_a_sack_block_of_its_own_had_arrived():
    """d5 is late on the Internet side. After a timeout the server forgets all blocks (RFC 2018, 8).

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
    assert gone(lines) == [d4, d6]


@pytest.mark.parametrize("older", [True, False])
def test_overtaken_segment_that_paws_refuses_had_arrived(older):
    """d6 was sent before d4', whose newer timestamp the mobile has by then (RFC 7323, 5.3), and is
    thrown away; or it was sent after d4', and is lost.

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
    assert [p.us for p in gone(stamped(lines))] == [p.us for p in ([d4] if older else [d4, d6])]


FULL, WITH_GAPS = SLOT_US / 1040, 2 * SLOT_US / 1040
"""The link's time a byte, and the time from one segment to the next where there are gaps (µs/B)."""


@pytest.mark.parametrize(("full", "pace"), [(60, FULL), (0, WITH_GAPS)])
def test_pace_is_told_where_the_queue_was_filled(full, pace):
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


def test_what_became_of_one_connection_is_not_asked_of_the_next():
    """Of the first, no ACK passes Gi and each segment comes twice: nothing can be told. Of the
    next, Gi saw each segment once, but missed the first copy of d4; a5 comes too soon for the
    other.

    Gi     | (d4)  d5  d4      d6
    mobile |               a5      a6
    """
    silent = [replace(sent(n * SLOT_US, n), port=999) for n in range(1, 21)]
    silent += [p.later(10 * SECOND) for p in silent]
    t = 40 * SECOND
    lines = [*silent, *(p.later(30 * SECOND) for p in started())]
    lines += [sent(t, 5), sent(t + 600 * MS, 4), acked(t + 700 * MS, 5)]
    lines += [sent(t + 5 * SECOND, 6), acked(t + 5 * SECOND + RTT_US + SLOT_US, 6)]
    assert gone(lines) == []


def mobile(copies: list[Packet], missed: list[Packet]) -> list[Packet]:
    """The ACKs of a mobile without SACK that answers each copy it gets; the link is a FIFO."""
    have: set[int] = set()
    out: list[Packet] = []
    first, free = 4, 0
    for copy in copies:
        if copy in missed:
            continue
        free = max(free, copy.us + RTT_US) + SLOT_US
        have.add((copy.seq - 500) // 1000 + 1)
        while first in have:
            first += 1
        out.append(acked(free, first - 1))
    return out


def exchange(copies: list[Packet], missed: list[Packet]) -> list[Packet]:
    return sorted([*started(), *copies, *mobile(copies, missed)], key=lambda p: p.us)


@pytest.mark.parametrize("end", [False, True], ids=["", "at the capture's end"])
def test_whole_window_lost_and_sent_again(end):
    """d4 ... d15 are lost; after a timeout each is retransmitted, twice as many each round trip, and
    acknowledged. The ACKs are too slow for a link that had only stood still."""
    flight = [sent(T + n * MS, 4 + n) for n in range(12)]
    rounds = [(0, 4), (1, 5), (1, 6), (2, 7), (2, 8), (2, 9), (2, 10)]
    rounds += [(3, n) for n in range(11, 16)]
    again = [sent(T + 3_000_000 + r * 1_500_000 + n * MS, n) for r, n in rounds]
    lines = exchange([*flight, *again], flight)
    assert gone(lines, 0 if end else 60) == flight


def test_mobile_that_is_heard_no_more_may_still_receive():
    """Its uplink died: d5 and d6, retransmitted and again, may arrive all the same. What is sent to
    it in other connections tells nothing, either.

    Gi     | d4    d5 d6 ... d5' ... d5'' ...  (60 s on, of another connection) d4
    mobile |    a4
    """
    lines = [*started(), sent(T, 4), acked(T + RTT_US + SLOT_US, 4)]
    lines += [sent(T + 2 * SECOND + at, n) for at, n in ((0, 5), (MS, 6))]
    lines += [sent(T + at * SECOND, 5) for at in (4, 8, 16, 32)]
    lines += [replace(sent(T + 60 * SECOND, 4), port=3000)]
    assert {evidence for _, evidence in lost(lines)} == {"undecided"}


@pytest.mark.parametrize(("was_sent", "missed"), [(True, 1), (False, 11)])
def test_ip_ids_tell_whether_acks_were_sent(was_sent, missed):
    """d4 is lost; of 30 copies after it the first ten are not answered, and the user is known for
    losses in a row. If the mobile's IP IDs lack ten, it had sent as many ACKs all the same; if they
    count on, it had got nothing.

    Gi     | d4 (lost) d5 ... d34
    mobile |                      (10 x a3)  20 x a3
    """
    in_a_row = [sent(T + n * MS, 4 + n) for n in range(40)]
    again = [sent(T + (10 + n) * SECOND, 4 + n) for n in range(39)]
    other = [replace(p, port=3000) for p in exchange([*in_a_row, *again], in_a_row[:-1])]
    lines = [p.later(100 * SECOND) for p in ten_acks_are_not_seen(was_sent)]
    assert expected([*other, *lines]) == pytest.approx(39 + missed, abs=0.5)


def test_ip_ids_that_another_connection_spent_are_no_acks():
    """The mobile counts what it sends to all servers. Ten IDs are missing between two ACKs; if an
    ACK of another connection came with each, none of this one was sent."""
    lines = ten_acks_are_not_seen(was_sent=False)
    first = next(p for p in lines if p.way == "up" and p.us > T)
    lines = [replace(p, id=p.id + 10) if p.way == "up" and p.us > T else p for p in lines]
    other = [replace(first, us=T + n * MS, id=first.id + n, port=3000) for n in range(10)]
    assert expected(lines) == pytest.approx(1, abs=0.5)
    lines = sorted([*lines, *other], key=lambda p: p.us)
    assert expected(lines) == pytest.approx(11, abs=0.5)


def ten_acks_are_not_seen(was_sent: bool) -> list[Packet]:
    """Of `test_ip_ids_tell_whether_acks_were_sent`, with the mobile's IP IDs."""
    flight = [sent(T + n * MS, 4 + n) for n in range(31)]
    lines = exchange(flight, flight[:1] if was_sent else flight[:11])
    ups = [replace(p, id=100 + n) for n, p in enumerate(p for p in lines if p.way == "up")]
    if was_sent:
        first = next(n for n, p in enumerate(ups) if p.us > T)
        del ups[first : first + 10]
    downs = [p for p in lines if p.way == "down"]
    return sorted([*downs, *ups], key=lambda p: p.us)


def expected(lines: list[Packet]) -> float:
    """How many packets were lost on the access side; the user is observed for another minute."""
    rows = tables([*lines, *later(lines[-1].us + 60 * SECOND)])["losses"]
    return sum(r["probability"] for r in rows if r["side"] == "access")


def test_ack_without_data_brings_none():
    """A pure ACK bears the number of what comes next. That it came is no sign that d5 ... d7, which
    were sent before it, did: d5' does not fill a hole, its ACK waits for d6'.

    Gi     | d5 d6 d7 (lost)  ack  d5' d6' d7'
    mobile |                                   a6 a7
    """
    flight = [sent(T + n * MS, 5 + n) for n in range(3)]
    again = [sent(T + 8 * SECOND + n * MS, 5 + n) for n in range(3)]
    pure = replace(sent(T + 3 * MS, 8), data=0)
    t = T + 8 * SECOND + RTT_US
    lines = [*in_pairs(2), *flight, pure, *again]
    for n, slot, echo in ((6, 2, 0), (7, 3, 2)):
        lines.append(replace(acked(t + slot * SLOT_US, n), tsecr=again[echo].us // MS + 1))
    lines = stamped(lines)
    assert [p.us for p in gone(lines)] == [p.us for p in flight]


def test_round_trip_that_only_a_retransmission_shows_to_be_shorter():
    """The radio has become faster: d5' is answered sooner than anything before. d6 was told of by
    SACK first, so d5 was lost; d5' was not.

    Gi     | d5 (lost) d6              d5' d7
    mobile |               a4 {d6}           a6 a7
    """
    d5, d6, again = sent(T, 5), sent(T + MS, 6), sent(T + 2 * SECOND, 5)
    before = [p for p in started(True, 4) if p.us < T]
    lines = [*before, d5, d6, acked(T + RTT_US + SLOT_US, 4, (6, 6)), again]
    lines += [sent(T + 2 * SECOND + MS, 7)]
    lines += [acked(T + 2 * SECOND + n * RTT_US // 3, 6 + n - 1) for n in (1, 2)]
    assert gone(lines) == [d5]


def test_how_long_a_round_trip_has_become_is_told_by_the_last_sack_block():
    """The queue grows; then the mobile is heard no more, though another of its connections was a
    little before. Its last ACK, for d12, took 3 s: what was sent after d12 need not be lost.

    Gi     | d4 (lost) d5 ... d12      d13 ... d20
    mobile |                {d5} ... {d5-d12}
    """
    flight = [sent(T + n * 100 * MS, 4 + n) for n in range(17)]
    told = [acked(T + 1_000 * MS + n * 400 * MS, 3, (5, 5 + n)) for n in range(8)]
    lines = sorted([*started(True), *flight, *told], key=lambda p: p.us)
    rows = [r for r in tables(lines)["losses"] if r["side"] == "access"]
    assert [r["evidence"] for r in rows if r["probability"] > 0.5] == ["order"]


def test_no_ack_waits_longer_than_any_is_known_to():
    """The window holds three segments. d42 was lost, so d41's ACK was sent when d43 came; had d42
    come, three segments would have waited 4 s for theirs.

    Gi     | d41 d42 (lost) d43              d42'
    mobile |                    a41              a43  a43 (with more room)
    """
    d42, again = sent(50 * SECOND + MS, 42), sent(54 * SECOND, 42)
    lines = [*in_pairs(20), sent(50 * SECOND, 41), d42, sent(50 * SECOND + 10 * MS, 43)]
    lines += [acked(50 * SECOND + RTT_US + 2 * SLOT_US, 41), again]
    a43 = acked(54 * SECOND + RTT_US + SLOT_US, 43)
    lines += [a43, replace(a43, us=a43.us + 20 * MS, win=12000)]
    assert gone(lines) == [d42]


def test_several_were_lost_and_nobody_can_say_which():
    """Of d5 ... d13 six arrived, out of order; then the capture ends. That three were lost is
    certain, which ones is not."""
    flight = [sent(T + n * MS, 4 + n) for n in range(10)]
    again = sent(T + 12 * SECOND, 4)
    lines = exchange([*flight, again], [flight[0], *flight[3:6]])
    rows = [r for r in tables(lines)["losses"] if r["side"] == "access"]
    assert {r["evidence"] for r in rows} == {"order", "undecided"}
    assert sum(r["probability"] for r in rows) == pytest.approx(4, abs=0.1)


def test_which_of_two_copies_was_lost():
    """The radio lost d4', the original waited behind what another connection fetched; its ACK comes
    in its turn, long before that of d4' had its.

    Gi     | (30 others)  d4  (20 others)  d4'
    mobile |                      30 x a        a4    20 x a
    """
    t = T
    d4, again = sent(t + 40 * MS, 4), sent(t + 2_500 * MS, 4)
    other = [replace(p, port=3000) for p in started()]
    busy = [replace(sent(t + n * MS, 3 + n), port=3000) for n in range(1, 31)]
    busy += [replace(sent(t + (50 + n) * MS, 33 + n), port=3000) for n in range(1, 21)]
    lines = [*started(), *other, *busy, d4, again]
    free = t + RTT_US
    for copy in sorted([*busy, d4], key=lambda p: p.us):
        free += SLOT_US
        lines += [replace(acked(free, (copy.seq - 500) // 1000 + 1), port=copy.port)]
    assert gone(sorted(lines, key=lambda p: p.us)) == [again]


def test_sender_that_goes_on_while_it_fills_holes():
    """BBR does not slow down for a loss, and without SACK it fills a hole a round trip: d6 and d9
    of d4 ... d30, paced as the link is, are lost."""
    copies = [sent(T + n * SLOT_US, 4 + n) for n in range(27)]
    d6, d9 = copies[2], copies[5]
    again = [sent(T + 1350 * MS, 6), sent(T + 2250 * MS, 9)]
    copies = sorted([*copies, *again], key=lambda p: p.us)
    assert gone(exchange(copies, [d6, d9])) == [d6, d9]


NOT_WIDE_ENOUGH = pytest.mark.xfail(
    strict=True, reason="64 hypotheses are too few, too: all copies but one are said to be lost"
)


@pytest.mark.parametrize("last", [24, pytest.param(90, marks=NOT_WIDE_ENOUGH)])
def test_duplicate_acks_that_were_lost_do_not_lead_the_search_astray(last):
    """d4 is lost, and so are four of the duplicate ACKs for the others: each hypothesis that loses
    other four costs the same. After a timeout all is retransmitted, and each copy answered: the first
    retransmission fills the only hole. So d4 is lost and, for all that the duplicates tell, four more.

    Gi     | d4 ... d44                  d4' ... d44'
    mobile |            a3 (36 of 40)                a44 (41 times)
    """
    flight = [sent(T + n * MS, n) for n in range(4, last + 1)]
    again = [p.later((last + 10) * SLOT_US) for p in flight]
    lines = exchange([*flight, *again], flight[:1])
    unseen = [p for p in lines if p.way == "up" and p.us > T][2:21:6]
    found = gone([p for p in lines if p not in unseen])
    assert flight[0] in found
    assert len(found) <= 1 + len(unseen)
