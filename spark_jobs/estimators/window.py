"""Which segments are a connection's: those that its ends could have sent (RFC 9293, 3.10.7.4).

An end takes what lies in its window and answers or drops the rest. The monitor sees both windows,
but not what has arrived, so it is generous where it must be: data may come again as far below what
is acknowledged as a window is wide; a window whose scale is not known may be 2^14 times as wide;
an ACK may acknowledge what the capture lacks, up to the edge of the window that its sender offered.

    low edge of the window        acknowledged        sent        upper edge: ACK + window
        |------- may come again -------|----------------|------------------|

What lies outside is of an old connection, injected, or behind a gap of the capture. What the ends
go on with tells (`_is_acknowledged`, `_is_gone_on_with`): the other end acknowledges what lies
behind a gap, and never what it dropped. Nothing lies below the initial sequence number.

Timestamps tell of old duplicates (RFC 7323, 5) that lie in the window: those older than the SYN's,
or overtaken by more than OLD_US. What was overtaken by less and refused by its receiver is the
connection's own (see `loss.paws`).
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.options import LARGEST_SHIFT
from spark_jobs.estimators.records import NO_SCALE
from spark_jobs.estimators.sequence import NONE, sequence_length, unwrap
from spark_jobs.estimators.tcp import ACK, FIN, RST, SYN, seq_diff

OUTSIDE, INSIDE, ELSEWHERE = range(3)
"""Where a segment lies: elsewhere is outside, too, but both ends go on there."""
NOT_TOLD, BY_ACK, BY_SILENCE = range(3)
"""What tells that a sender goes on outside its window."""

FURTHEST = np.int64(2**62)
"""Where a stream may end as long as no FIN was seen."""
LEAST_ROOM = 65_535
"""B: a window is taken to be at least so wide: as one without a scale can be (RFC 9293)."""
NEAR, FAR = 1 << 20, 1 << 26
"""B: an ACK that lies within NEAR above a segment tells of it; so does one within a window's width,
up to FAR."""
MOST_LOOKED = 256
"""So many later segments are searched for what the two ends go on with."""
ENOUGH = 8
"""So many later segments of a sender prove that it goes on, where the other end is not heard."""
JITTER_US = 10_000
"""A capture may stamp an ACK so much earlier than what it acknowledges."""
OLD_US = 10_000_000
"""A segment that was overtaken by more is an old duplicate."""

END = np.dtype(
    [
        ("first", "i8"),
        ("low", "i8"),
        ("top", "i8"),
        ("acked", "i8"),
        ("edge", "i8"),
        ("offered", "i8"),
        ("room", "i8"),
        ("scale", "i8"),
        ("shift", "i8"),
        ("stamp", "i8"),
        ("mark", "i8"),
        ("next_mark", "i8"),
        ("marked_ts", "i8"),
        ("last", "i8"),
        ("opened", "?"),
        ("sent", "?"),
    ],
    align=True,
)
"""An end of a connection, and the stream that it sends; NONE, the least of numbers: not known.

first, last         the SYN's number, and where the FIN ends
low, top            the lowest number that either end named, and the highest
acked, edge         up to where the other end acknowledged, and offered room
offered, room       the window that it was offered by a SYN, and the widest (B)
scale, shift        of its own windows (NO_SCALE: without), and by how much they are shifted at most
stamp               the SYN's timestamp
mark, next_mark     a timestamp that is OLD_US old at least, the next one to be that,
marked_ts           and when that passed (µs)
opened, sent        its SYN was seen; it sent anything
"""


class Segment(NamedTuple):
    """A packet, as numbers: a record of arrays takes longer to hand on than all that is done here.
    length: of its data and FIN (B); stamp: its timestamp, where it is stamped."""

    flags: np.uint16
    seq: np.uint32
    ack: np.uint32
    window: np.int64
    length: np.int64
    stamped: bool
    stamp: np.uint32
    ts: np.int64


@inner
def begin(end):
    """An end of which nothing was seen."""
    end.first = end.low = end.top = end.acked = end.edge = NONE
    end.offered, end.room, end.scale = NONE, LEAST_ROOM, NO_SCALE
    end.opened = end.sent = False
    end.shift, end.last = LARGEST_SHIFT, FURTHEST
    end.stamp = end.mark = end.next_mark = NONE
    end.marked_ts = np.int64(-(2**62))


@inner
def position(number, end):
    """Where a sequence number lies in an end's stream."""
    return unwrap(number, end.top)


@inner
def goes_on(segment, own, other):
    """Whether a segment with an ACK, no SYN nor RST, lies within both windows as they are known; if
    so, it is taken. Most do; of the others `is_acceptable` tells."""
    if segment.flags & (SYN | RST | ACK) != ACK or own.acked == NONE or other.acked == NONE:
        return False
    low = unwrap(segment.seq, own.top)
    high = low + segment.length
    if low > max(own.edge, own.top) or low < own.first or high < own.acked - own.room:
        return False
    if high > own.last or segment.flags & FIN:
        return False
    ack = unwrap(segment.ack, other.top)
    if ack > other.top or ack <= other.first or ack < other.acked - other.room:
        return False
    if segment.stamped:
        if segment.length and _is_old(segment.stamp, own):
            return False
        if segment.ts - own.marked_ts >= OLD_US:
            _stamp(segment.stamp, segment.ts, own)
    own.top, own.low = max(own.top, high), min(own.low, low)
    own.sent = True
    _offer(other, ack, segment.window << own.shift)
    return True


@inner
def _is_old(stamp, own):
    """Whether a timestamp says that a segment was sent before its connection began, or so long ago
    that it is on its way no more."""
    if own.stamp != NONE and seq_diff(stamp, np.uint32(own.stamp)) < 0:
        return True
    return own.mark != NONE and seq_diff(stamp, np.uint32(own.mark)) < 0


@inner
def _offer(end, ack, room):
    """What an end sent is acknowledged, and it is offered room."""
    end.acked, end.top, end.low = max(end.acked, ack), max(end.top, ack), min(end.low, ack)
    end.edge, end.room = max(end.edge, ack + room), max(end.room, room)


@inner
def is_acceptable(packets, i, own, other, following):
    """Whether packet i, no SYN, is one that its sender, `own`, could have sent: OUTSIDE, INSIDE, or
    ELSEWHERE, where both ends go on, though it is outside. following int64: the next packet of the
    same ends, of each packet, or -1."""
    flags = packets.tcp_flags[i]
    low = position(packets.seq[i], own)
    high = low + (0 if flags & RST else sequence_length(flags, packets.payload_len[i]))
    if flags & RST:
        return INSIDE if _resets(packets, i, low, own, other) else OUTSIDE
    verdict = INSIDE
    if not _in_window(low, high, own, other):
        if low < own.first:
            return OUTSIDE
        told = _is_acknowledged(packets, i, high, own, other, following)
        if told == NOT_TOLD:
            return OUTSIDE
        verdict = ELSEWHERE if told == BY_ACK else INSIDE
    if high > low and packets.has_timestamps[i] and _is_old(packets.ts_val[i], own):
        if low < own.top or not _is_taken(packets, i, low, own, following):
            return OUTSIDE
        own.stamp = own.mark = own.next_mark = NONE  # this sender's clock runs back
    if flags & ACK and not (verdict == ELSEWHERE and own.acked == NONE):
        ack = position(packets.ack[i], other)
        if not _acknowledges(packets, i, ack, own, other, following):
            return OUTSIDE
    return verdict


@inner
def _in_window(low, high, own, other):
    """Whether [low, high) lies in the window that `own` was offered."""
    if own.top == NONE:
        return True
    if low < own.first:
        return False
    if own.edge == NONE:
        # The other end has said nothing: behind a SYN nothing may come but its retransmission.
        return low <= own.top if own.opened else abs(low - own.top) <= FAR
    if low > max(own.edge, own.top) or high > own.last:
        return False
    return own.acked == NONE or high >= own.acked - own.room


@inner
def _resets(packets, i, low, own, other):
    """Whether an RST may be its sender's. What refuses a SYN has no numbers of its own."""
    if own.top == NONE:
        ack = position(packets.ack[i], other)
        told = packets.tcp_flags[i] & ACK and other.opened
        return not told or other.first < ack <= max(other.top, other.edge)
    if low < own.first:
        return False
    if own.acked != NONE and low < own.acked - own.room:
        return False
    unknown = LEAST_ROOM if own.edge == NONE and not own.opened else 0
    return low <= max(own.top, own.edge, own.acked) + unknown


@inner
def _acknowledges(packets, i, ack, own, other, following):
    """Whether packet i of `own` may acknowledge up to `ack`."""
    if other.top == NONE:
        return True
    if ack <= other.first or ack > other.last:
        return False
    if ack <= other.top:
        return other.acked == NONE or ack >= other.acked - other.room
    return _is_gone_on_with(packets, i, ack, other, following)


@inner
def _later(packets, j, following):
    """Packet j, or the next one of its ends that is no RST; -1 where there is none before a SYN,
    which may begin another connection."""
    while j >= 0 and packets.tcp_flags[j] & RST:
        j = following[j]
    return -1 if j >= 0 and packets.tcp_flags[j] & (SYN | ACK) == SYN else j


@inner
def _is_gone_on_with(packets, i, ack, other, following):
    """Whether packet i acknowledges what the capture lacks, or what it stamped later, and not what
    was never sent: its sender's ACKs do not go back, and what is far above was sent, too."""
    offered = other.edge != NONE and ack <= other.edge
    near = offered or ack - other.top <= NEAR
    again = back = there = False
    j = np.int64(i)
    for _ in range(MOST_LOOKED):
        j = _later(packets, following[j], following)
        if j < 0:
            break
        soon = packets.ts[j] - packets.ts[i] <= JITTER_US
        if back and not soon:
            break
        if packets.downlink[j] != packets.downlink[i]:
            place = position(packets.seq[j], other)
            if soon and place < ack <= place + np.int64(packets.payload_len[j]):
                return True
            there |= abs(place - ack) <= NEAR
            if not near and abs(place - other.top) <= NEAR:
                return False
        elif packets.tcp_flags[j] & ACK:
            further = seq_diff(packets.ack[j], packets.ack[i])
            back |= further < 0
            again = 0 <= further <= FAR
            if near and not back:
                return again or offered
    if back:
        return False
    if there and not near:
        return True
    return offered or (near and not other.opened) or (again and not other.sent)


@inner
def _is_acknowledged(packets, i, high, own, other, following):
    """BY_ACK where the other end acknowledges what packet i brought, up to `high` in its stream,
    though it lay outside the window; that counts only where what is acknowledged lies outside, too,
    was not retransmitted within the window, and the ends do not come back to where they were. An end
    that is not heard any more cannot tell: then what the sender goes on with does, BY_SILENCE. Else
    NOT_TOLD."""
    top = max(own.top, own.edge)
    near = max(NEAR, min(own.room, FAR))
    low = high - sequence_length(packets.tcp_flags[i], packets.payload_len[i])
    lowest = own.first if own.acked == NONE else own.acked - own.room
    is_far = low > top + NEAR or (lowest != NONE and high < lowest)
    edge, heard, taken, goes_on = own.edge, False, False, 0
    j = np.int64(i)
    for _ in range(MOST_LOOKED):
        j = _later(packets, following[j], following)
        if j < 0:
            break
        mine = packets.downlink[j] == packets.downlink[i]
        place = position(packets.seq[j] if mine else packets.ack[j], own)
        known = lowest != NONE and lowest <= place <= top
        if taken and known:
            return NOT_TOLD
        if mine:
            if place == low < high and packets.payload_len[j] and place <= edge:
                return NOT_TOLD
            goes_on += 0 <= place - low <= FAR
        elif packets.tcp_flags[j] & ACK:
            heard = True
            if known:
                shift = np.int64(0) if packets.tcp_flags[j] & SYN else other.shift
                edge = max(edge, place + (np.int64(packets.window[j]) << shift))
            elif high <= place <= high + near:
                taken = True
                if not is_far:
                    return BY_ACK
    if taken or heard:
        return BY_ACK if taken else NOT_TOLD
    can_be = low <= top + FAR or not own.opened
    return BY_SILENCE if can_be and (not other.sent or goes_on >= ENOUGH) else NOT_TOLD


@inner
def _is_taken(packets, i, low, own, following):
    """Whether the other end acknowledges packet i's data, from `low` on, though its sender sends
    that in no other packet."""
    high = low + sequence_length(packets.tcp_flags[i], packets.payload_len[i])
    j = np.int64(i)
    for _ in range(MOST_LOOKED):
        j = _later(packets, following[j], following)
        if j < 0:
            break
        if packets.downlink[j] == packets.downlink[i]:
            start = position(packets.seq[j], own)
            if start <= low < start + np.int64(packets.payload_len[j]):
                return False
        elif packets.tcp_flags[j] & ACK:
            if high <= position(packets.ack[j], own) <= high + NEAR:
                return True
    return False


@inner
def take(packets, i, own, other):
    """Packet i is its sender's: what that tells of both ends."""
    flags = packets.tcp_flags[i]
    if flags & RST:
        if flags & ACK and other.top == NONE:
            other.low = other.top = np.int64(packets.ack[i])  # it refuses a SYN that comes late
        return
    low = position(packets.seq[i], own)
    high = low + sequence_length(flags, packets.payload_len[i])
    if own.acked != NONE and high < own.acked - own.room:
        own.top, own.acked, own.edge = high, NONE, NONE  # the ends go on elsewhere
    if high > own.last:
        own.last = FURTHEST
    if flags & SYN:
        offered = np.int64(packets.window[i])
        if flags & ACK:
            own.edge = high + (LEAST_ROOM if own.offered == NONE else own.offered)
        else:
            other.offered, other.room = offered, max(other.room, offered)
        own.first, own.opened, own.scale = low, True, np.int64(packets.window_scale[i])
        if packets.options_cut[i] and own.scale == NO_SCALE:
            own.scale = LARGEST_SHIFT
        own.shift, other.shift = _largest_shift(own, other), _largest_shift(other, own)
    own.top = max(own.top, high)
    if flags & FIN:
        own.last = high
    own.low = low if own.low == NONE else min(own.low, low)
    own.sent = True
    if flags & ACK:
        ack = position(packets.ack[i], other)
        if other.acked != NONE and ack < other.acked - other.room:
            other.acked = other.edge = other.top = NONE
        if ack > other.last:
            other.last = FURTHEST
        if other.low == NONE:
            other.low = ack
        shift = np.int64(0) if flags & SYN else own.shift
        _offer(other, ack, np.int64(packets.window[i]) << shift)
    if packets.has_timestamps[i]:
        if flags & SYN:
            own.stamp = np.int64(packets.ts_val[i])
        if packets.ts[i] - own.marked_ts >= OLD_US:
            _stamp(packets.ts_val[i], packets.ts[i], own)


@inner
def _largest_shift(own, other):
    """By how much the windows of `own` are shifted at most (RFC 7323, 2.2), but for a SYN's."""
    if own.opened and (own.scale == NO_SCALE or (other.opened and other.scale == NO_SCALE)):
        return np.int64(0)
    return min(own.scale, LARGEST_SHIFT) if own.opened else np.int64(LARGEST_SHIFT)


@inner
def _stamp(value, ts, own):
    """The sender's clock goes on."""
    if own.next_mark == NONE or seq_diff(value, np.uint32(own.next_mark)) > 0:
        own.mark, own.next_mark, own.marked_ts = own.next_mark, np.int64(value), ts
