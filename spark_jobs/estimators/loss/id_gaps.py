"""Gaps in a sender's IP IDs: packets that it sent and Gi never saw, missed or not.

Where a sender counts a connection's packets alone by their IDs (see `ip_ids`), each ID that no
packet came with is a packet lost on the Internet side; what was overtaken comes with its own a little later.
What it was, its neighbours tell, the packets sent before and after it:

- what else tells of it (see `internet`): new data, or a retransmission whose absence showed. A retransmission that
  is told to be lost though no ID is missing was not;
- an answer without data, if uplink data was to be acknowledged and no such answer was seen;
- an earlier copy of the next packet, if that is new though all was acknowledged a timeout ago;
- new data, if the next packet answers duplicate ACKs, but comes after an ACK that let more be sent;
- what follows the retransmission before it (RFC 5681, 3.1: from there on all is retransmitted), but for what
  the mobile reported by SACK;
- after a silence longer than a round trip, the last segment as a loss probe (RFC 8985, 7.3), which
  may be a FIN without data, or the first one not acknowledged (RFC 6298, 5.4);
- after duplicate ACKs, the segment that they ask for;
- an earlier copy of the next packet, if that is a retransmission, too.

That many packets were data is thus known better than which. What nothing gives a reason for was
spent on others: where this is more than a few of all, or more copies were lost than packets came,
nothing is told of the connection.
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators import ip_ids
from spark_jobs.estimators.loss.found import (
    HOLE,
    IP_ID,
    NOTHING,
    Shown,
    lose,
)
from spark_jobs.estimators.sequence import NONE, sequence_length, unwrap
from spark_jobs.estimators.tcp import FIN, RST, SYN

GAP = np.dtype(
    [
        ("low", "i8"),
        ("count", "i8"),
        ("left", "i8"),
        ("others", "i8"),
        ("after", "i8"),
        ("before", "i8"),
        ("highest", "i8"),
        ("data", "i8"),
        ("acked", "i8"),
        ("explained", "i8"),
        ("copies", "i8"),
        ("copy", "i8"),
        ("alone", "i8"),
    ]
)
"""IDs that were passed over: the first, how many there were and how many have not come since;
others: of those that came, the ones that are not new data; the packets after and before which they
were sent, as Gi saw them; then, the highest number, where data ended, and what was acknowledged.

explained: of how many that have not come something else tells; copies: how many were copies of
data, and the number of such; alone: of how many nothing tells."""

SERVER_US = 500_000
"""A server acknowledges within this, delayed ACKs included (RFC 1122, 4.2.3.2)."""
EARLY = 0.9
"""An answer comes no earlier than this part of the least round trip: Gi's clock ticks, too."""
FEW = 0.25
"""Of the IDs missing, such a share may be there for no reason that we know."""
DUPLICATES = 3
"""Duplicate ACKs that tell of a loss (RFC 5681, 3.2)."""
NO_DATA = np.int64(NONE + 1)
"""No number of the stream: a packet without data."""


class Gaps(NamedTuple):
    """A connection's gaps."""

    rows: np.ndarray
    """GAP[..], in order of IDs, the first of which are:"""
    n: np.ndarray
    """int64[1]: so many."""


class Sender(NamedTuple):
    """What is known of a connection's sender."""

    sack: bool
    largest: np.int64
    """Its largest segment (B)."""
    round_trip: float
    """The least on the Internet side (µs), or 0;"""
    base: float
    """and behind it."""
    slack: int
    """By so much a timeout exceeds a round trip on both sides at least (µs)."""


class Around(NamedTuple):
    """What passed between the data sent last before a gap, and the packet behind it."""

    data_at: np.int64
    """That data,"""
    acked: np.int64
    """what was acknowledged when it passed,"""
    highest: np.int64
    """and in the end."""
    silence: np.int64
    """The longest time without any ACK of data or data (µs),"""
    silent_at: np.int64
    """and what was acknowledged then."""
    duplicates: np.int64
    """ACKs that acknowledged nothing more,"""
    repeated: np.int64
    """and the number of the last of these."""
    last: np.int64
    """How long since the last ACK (µs)."""


@inner
def note(gaps, stream, sent, acked):
    """Tell Gaps of a packet whose ID does not follow the latest of the STREAM's; acked: the highest
    ACK."""
    number = sent.ip_id
    if number == 0:
        return  # none, rather than the one after 65535, which would have followed that
    ahead = ip_ids.ahead(number, stream.latest_id)
    if stream.latest_id < 0:
        stream.latest_id = number
    elif ahead < 0:
        _take_away(gaps, stream.latest_id + ahead, sent)
    elif ahead > 0:
        gap = gaps.rows[gaps.n[0]]
        gap.low, gap.count = stream.latest_id + 1, ahead - 1
        gap.left, gap.others, gap.explained = gap.count, 0, 0
        gap.after, gap.before = stream.last, sent.segment
        gap.highest, gap.data, gap.acked = stream.highest, stream.data, acked
        gaps.n[0] += 1
        stream.latest_id += ahead
    elif (number - stream.latest_id) & 0xFFFF:
        if number == (stream.far_id + 1) & 0xFFFF:  # the counter began anew
            stream.latest_id += 0x20000 + ((number - stream.latest_id) & 0xFFFF)
        stream.far_id = number


@inner
def _take_away(gaps, number, sent):
    """The packet with an ID that is missing has come."""
    k = gaps.n[0] - 1
    while k >= 0 and gaps.rows[k].low > number:
        k -= 1
    if k < 0:
        return
    gap = gaps.rows[k]
    if gap.left > 0 and number < gap.low + gap.count:
        gap.left -= 1
        if sent.data_end == sent.start or sent.start < gap.highest:
            gap.others += 1


@inner
def explain(gaps, found, begun):
    """What the losses Found from `begun` on explain of Gaps. Returns whether some are of retransmissions
    that no ID shows."""
    unshown = False
    for of_holes in (True, False):
        for k in range(begun, found.n[0]):
            loss = found.losses[k]
            if (loss.evidence == HOLE) != of_holes:
                continue
            of_gap = _gap_of(gaps, loss, of_holes)
            if of_gap >= 0:
                gaps.rows[of_gap].explained += loss.packets
            elif not of_holes:
                loss.shown = NOTHING
                unshown = True
    return unshown


@inner
def refuse(found, begun):
    """Take away the losses Found from `begun` on that no ID shows."""
    to = begun
    for k in range(begun, found.n[0]):
        if found.losses[k].shown != NOTHING:
            found.losses[to] = found.losses[k]
            to += 1
    found.n[0] = to


@inner
def _gap_of(gaps, loss, is_hole):
    """The gap that a loss left, or -1: before the packet that showed it; of new data, it may be
    before a retransmission in between."""
    k = _gap_up_to(gaps, loss.shown)
    while k >= 0:
        gap = gaps.rows[k]
        if gap.before < loss.shown and (not is_hole or gap.highest != loss.begin):
            return -1
        if gap.explained + loss.packets <= gap.left:
            return k
        k -= 1
    return -1


@inner
def _gap_up_to(gaps, segment):
    """The last gap before a segment, or before an earlier one; or -1."""
    k, to = 0, gaps.n[0]
    while k < to:
        middle = (k + to) >> 1
        if gaps.rows[middle].before <= segment:
            k = middle + 1
        else:
            to = middle
    return k - 1


@inner
def judge(gaps, seen, span, segments, sender):
    """What each gap is of; whether the IDs count this connection alone, seen packets of which came.
    span: its segments."""
    told = alone = copies = 0
    for k in range(gaps.n[0]):
        gap = gaps.rows[k]
        gap.copies = gap.alone = 0
        if gap.left > gap.explained:
            _explain_hole(gap, span[1], segments, sender)
        if gap.left > gap.explained:
            _judge(gap, span[0], segments, sender)
        told += gap.explained
        copies += gap.copies
        alone += gap.alone
    return alone <= FEW * (told + copies + alone) and copies <= seen


@inner
def _explain_hole(gap, end, segments, sender):
    """New data that was missing and is not among the losses was dropped by the capture, or has
    only been missed; a single number is a FIN's. end: of the connection's segments."""
    shown = gap.before
    while shown < end and not _shows(shown, gap.highest, segments):
        shown += 1
    hole = segments.number[shown] - gap.highest if shown < end else 0
    if hole > 0 and (shown == gap.before or hole == 1):
        pieces = -(-hole // sender.largest) - (gap.count - gap.left - gap.others)
        gap.explained = max(gap.explained, min(gap.left, pieces))


@inner
def _shows(i, highest, segments):
    """Whether a segment shows what its sender sent up to the highest number."""
    if not segments.downlink[i] or segments.number[i] == NONE:
        return False
    if segments.tcp_flags[i] & FIN == 0 and segments.payload_len[i] == 0:
        return segments.number[i] > highest
    return segments.number[i] >= highest


@inner
def _judge(gap, begin, segments, sender):
    """What the packets are that nothing else explains."""
    before = gap.before
    is_bare = segments.payload_len[before] == 0 and segments.tcp_flags[before] & FIN == 0
    missing = gap.left - gap.explained
    if segments.probe[gap.after] or segments.probe[before]:
        gap.explained += missing  # probes come one after another
        return
    answers = min(missing, max(_owed(gap, begin, segments, sender) - is_bare, 0))
    gap.explained += answers
    missing -= answers
    if missing == 0:
        return
    around = _look_around(gap, begin, segments, sender.sack)
    in_flight = -(-(gap.highest - around.acked) // sender.largest)
    if is_bare and missing > max(in_flight, 1) + 1:
        return  # another counter's ID: the connection is in TIME-WAIT
    copy = _copied(gap, around, begin, segments, sender)
    if copy == NO_DATA:
        gap.explained += missing
    elif copy == NONE:
        gap.alone = missing
    else:
        gap.copies, gap.copy = missing, copy


@inner
def _copied(gap, around, begin, segments, sender):
    """The number of the data that was sent in a gap; NO_DATA of a FIN or an ACK, NONE if there was
    no reason to send any."""
    start, length = segments.number[gap.before], segments.payload_len[gap.before]
    end = segments.number[around.data_at] + segments.payload_len[around.data_at]
    wait = sender.round_trip + sender.base
    went_back = end < gap.data and _carries(around.data_at, segments)
    late = around.last > wait + sender.slack
    told = around.duplicates >= (1 if sender.sack else DUPLICATES)
    if gap.acked >= gap.highest and start == gap.highest and late and not told and not went_back:
        return start if length > 0 else NO_DATA
    if around.acked >= gap.data:
        return NO_DATA
    if start == gap.acked < gap.data and around.duplicates and not late and not went_back:
        return gap.highest
    if went_back and around.acked <= end and (start != end or around.silence <= wait):
        if around.highest >= end or around.silence <= wait:
            return _not_reported(end, gap, begin, segments)
    if start == gap.highest and around.last > wait and not told:
        return start if length > 0 else NO_DATA
    if around.silence > wait:
        if sender.sack and not told and not _is_probe(around, begin, segments, wait):
            with_data = segments.number[around.data_at] < gap.data
            if gap.highest > gap.data and (
                _end(around.data_at, segments) <= gap.data or not with_data
            ):
                return NO_DATA
            return max(gap.data - sender.largest, around.silent_at)
        return around.silent_at
    if around.duplicates > 0:
        return around.repeated
    if start < gap.data:
        return start
    retransmitted = _last_retransmission(around, begin, segments, wait)
    return (
        _not_reported(max(retransmitted, around.acked), gap, begin, segments)
        if retransmitted != NONE
        else NONE
    )


@inner
def _last_retransmission(around, begin, segments, wait):
    """The number after the last retransmission within `wait` before the data sent last; NONE: no retransmission."""
    ts, ip_id = segments.ts, segments.ip_id
    at = around.data_at
    i = at
    while i > begin and ts[at] - ts[i] <= wait:
        i -= 1
    highest = retransmitted = NONE
    highest_id = np.int64(0)
    while i < at:
        if _carries(i, segments):
            end = _end(i, segments)
            if end > highest:
                highest, highest_id = end, np.int64(ip_id[i])
            elif ip_ids.ahead(ip_id[i], highest_id) > 0:
                retransmitted = end
        i += 1
    return retransmitted


@inner
def _is_probe(around, begin, segments, wait):
    """Whether the data sent last was a loss probe: a retransmission of the last, or new data after a
    silence (RFC 8985, 7.3)."""
    number, downlink = segments.number, segments.downlink
    at = around.data_at
    earlier = at - 1
    answers = False
    while earlier >= begin and not _carries(earlier, segments):
        answers |= not downlink[earlier] and NONE < number[earlier] < around.acked
        earlier -= 1
    if earlier < begin:
        return False
    again = _end(earlier, segments) >= _end(at, segments)
    again &= ip_ids.ahead(segments.ip_id[at], np.int64(segments.ip_id[earlier])) > 0
    return again or (not answers and segments.ts[at] - segments.ts[earlier] > wait)


@inner
def _carries(i, segments):
    """Whether a segment is of the downlink and carries data or a FIN."""
    has = segments.payload_len[i] > 0 or segments.tcp_flags[i] & FIN != 0
    return has and segments.downlink[i] and segments.number[i] != NONE


@inner
def _end(i, segments):
    """The number after a segment."""
    return segments.number[i] + sequence_length(segments.tcp_flags[i], segments.payload_len[i])


@inner
def _not_reported(number, gap, begin, segments):
    """The first number from there on that the last ACK before a gap's end did not report."""
    i = gap.before - 1
    while i > begin and (segments.downlink[i] or segments.number[i] == NONE):
        i -= 1
    at, count = segments.sack_at[i], np.int64(segments.sack_count[i])
    for _ in range(count // 2):
        for k in range(at, at + count - 1, 2):
            low = unwrap(segments.sack_edges[k], number)
            high = unwrap(segments.sack_edges[k + 1], number)
            number = high if low <= number < high else number
    return number if number < gap.data else NO_DATA


@inner
def _look_around(gap, begin, segments, sack):
    ts, number, downlink, payload_len = (
        segments.ts,
        segments.number,
        segments.downlink,
        segments.payload_len,
    )
    data_at = gap.after
    while data_at > begin and not _carries(data_at, segments):
        data_at -= 1
    i = data_at - 1
    while i >= begin and (downlink[i] or number[i] == NONE):
        i -= 1
    acked = number[i] if i >= begin else number[data_at]
    highest = silent_at = repeated = acked
    duplicates = silence = np.int64(0)
    last = ts[data_at]
    for i in range(data_at + 1, gap.before + 1):
        if number[i] == NONE or (downlink[i] and i < gap.before):
            continue
        if ts[i] - last > silence:
            silence, silent_at = ts[i] - last, highest
        if downlink[i]:
            continue
        last = ts[i]
        if number[i] <= highest and number[i] < gap.highest and payload_len[i] == 0:
            if segments.sack_count[i] > 0 or not sack:
                duplicates += 1
                repeated = highest
        highest = max(highest, number[i])
    since = ts[gap.before] - last
    return Around(
        np.int64(data_at), acked, highest, silence, silent_at, duplicates, repeated, since
    )


@inner
def _owed(gap, begin, segments, sender):
    """How many packets without data the server owed, see Around."""
    ts, flags, up_number = segments.ts, segments.tcp_flags, segments.up_number
    after, before = gap.after, gap.before
    sooner = np.int64(EARLY * sender.round_trip)
    later = np.int64(sender.round_trip) + SERVER_US
    owed = np.int64(0)
    bare = NONE  # when the last packet without data passed
    i = before - 1
    while i >= begin and ts[i] > ts[after] - later:
        if flags[i] & (SYN | RST):
            i -= 1
            continue
        length = np.int64(segments.payload_len[i]) + (flags[i] & FIN != 0)
        if segments.downlink[i]:
            if length == 0 and bare == NONE:
                bare = ts[i]
        elif length > 0:
            heard = ts[i] + sooner
            again = up_number[i] + length <= segments.up_number[after]
            waits = later if again else sooner
            owed += bare < heard <= ts[before] and ts[after] < ts[i] + waits
        i -= 1
    return owed


@inner
def emit(gap, found, segments, sender):
    """Add a gap's copies of data to the losses Found: one after the other, as far as there was so
    much data."""
    before = gap.before
    end = max(gap.data, segments.number[before] + segments.payload_len[before])
    low = gap.copy
    for _ in range(gap.copies):
        high = low + sender.largest
        if low == segments.number[before]:
            high = min(high, low + segments.payload_len[before])
        elif low < end:
            high = min(high, end)
        by = Shown(segments.ts[before], np.int64(before), low, NOTHING)
        lose(found, low, high, by, IP_ID, 1.0)
        found.losses[found.n[0] - 1].packets = 1
        low = high if high < end or gap.copy == gap.highest else gap.copy
