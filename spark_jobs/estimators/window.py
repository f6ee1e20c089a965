"""Acceptable segments of a connection: those that its ends could have sent (RFC 9293, 3.10.7.4).

An end accepts segments in its window and answers or drops the others. The monitor sees both
windows, but not which segments arrived. So it is generous in three ways: data may be retransmitted
as far below the acknowledged data as a window is wide; a window whose scale is not known may be
2^14 times as wide; an ACK may acknowledge data that the capture lacks, up to the edge of the window
that its sender offered.

    low edge of the window        acknowledged        sent        upper edge: ACK + window
        |--- may be retransmitted ------|----------------|------------------|

A segment out of window belongs to an old connection, or is injected, or comes after a gap of the
capture. The later segments of both ends distinguish these cases (`_continuation_evidence`,
`_is_ack_confirmed`): the other end acknowledges data after a gap, but never data that it dropped.
No segment lies below the initial sequence number.

Timestamps reveal old duplicates (RFC 7323, 5) that lie in the window: their timestamp is older than
the SYN's, or they were overtaken by more than MAX_SEGMENT_AGE_US. A segment that was overtaken by
less, and that its receiver dropped, belongs to the connection (see `loss.paws`).
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.options import MAX_WINDOW_SHIFT
from spark_jobs.estimators.records import NO_SCALE
from spark_jobs.estimators.sequence import NONE, sequence_length, unwrap
from spark_jobs.estimators.tcp import ACK, FIN, RST, SYN, seq_diff

OUT_OF_WINDOW, IN_WINDOW, MOVED = range(3)
"""Verdicts on a segment.

MOVED: the segment is out of window, but both ends continue there.
"""
UNKNOWN, BY_ACK, BY_SILENCE = range(3)
"""Evidence that a sender continues outside its window."""

NO_FIN = np.int64(2**62)
"""End of a stream as long as no FIN was seen."""
MIN_WINDOW = 65_535
"""B: the assumed minimum of a window, the largest window without a scale (RFC 9293)."""
NEAR, FAR = 1 << 20, 1 << 26
"""B: distances above a segment at which an ACK is attributed to it.

An ACK is attributed to a segment within NEAR above it. It is also attributed within a window's
width, up to FAR.
"""
MAX_LOOKAHEAD = 256
"""Number of later segments that are searched for the numbers with which the two ends continue."""
MIN_CONTINUATION = 8
"""Later segments of a sender that prove that it continues, if the other end is not seen."""
JITTER_US = 10_000
"""Time by which a capture may stamp an ACK earlier than the data that it acknowledges."""
MAX_SEGMENT_AGE_US = 10_000_000
"""A segment that was overtaken by more than this is an old duplicate."""
OUTDATED_US = 1 << 31
"""Time after which a timestamp is not comparable any more (RFC 7323, 5.5): a clock that counts µs
has turned half around."""

END = np.dtype(
    [
        ("isn", "i8"),
        ("lowest", "i8"),
        ("highest", "i8"),
        ("acked", "i8"),
        ("right_edge", "i8"),
        ("syn_window", "i8"),
        ("max_window", "i8"),
        ("window_scale", "i8"),
        ("max_shift", "i8"),
        ("syn_ts_val", "i8"),
        ("old_ts_val", "i8"),
        ("next_old_ts_val", "i8"),
        ("next_old_seen_ts", "i8"),
        ("fin_end", "i8"),
        ("syn_seen", "?"),
        ("has_sent", "?"),
    ],
    align=True,
)
"""An end of a connection, and the stream that it sends; NONE, the smallest number: not known.

isn: the sequence number of its SYN
lowest, highest: the lowest and the highest number in its stream that either end used
acked: end of the data that the other end acknowledged
right_edge: end of the room that the other end offered
syn_window: the window that the other end's SYN offered (B)
max_window: the widest window that it was offered (B)
window_scale: shift count of its own windows (NO_SCALE: without the option)
max_shift: maximum shift of its own windows
syn_ts_val: its SYN's timestamp; NONE as soon as there is an old_ts_val
old_ts_val: a timestamp that is at least MAX_SEGMENT_AGE_US old
next_old_ts_val, next_old_seen_ts: the next such timestamp, and the time at which it passed (µs)
fin_end: end of its FIN, or NO_FIN
syn_seen: its SYN was seen
has_sent: it sent anything
"""


class Segment(NamedTuple):
    """A packet's fields as numbers, because Numba passes a record of arrays too slowly.

    length: length of its data and FIN (B)
    ts_val: its timestamp, if it has one
    """

    flags: np.uint16
    seq: np.uint32
    ack: np.uint32
    window: np.int64
    length: np.int64
    has_timestamp: bool
    ts_val: np.uint32
    ts: np.int64


@inner
def clear_end(end):
    """Set an END to the state in which nothing was seen of it."""
    end.isn = end.lowest = end.highest = end.acked = end.right_edge = NONE
    end.syn_window, end.max_window, end.window_scale = NONE, MIN_WINDOW, NO_SCALE
    end.syn_seen = end.has_sent = False
    end.max_shift, end.fin_end = MAX_WINDOW_SHIFT, NO_FIN
    end.syn_ts_val = end.old_ts_val = end.next_old_ts_val = NONE
    end.next_old_seen_ts = np.int64(-(2**62))


@inner
def stream_position(number, end):
    """Return the position of a sequence number in an end's stream."""
    return unwrap(number, end.highest)


@inner
def accept_plain(segment, sender, receiver):
    """Return whether a plain segment lies within both windows as they are known; accept it if so.

    A plain segment has an ACK, and no SYN or RST. Most segments are accepted here; `acceptability`
    decides about the others.
    """
    if segment.flags & (SYN | RST | ACK) != ACK or sender.acked == NONE or receiver.acked == NONE:
        return False
    low = unwrap(segment.seq, sender.highest)
    high = low + segment.length
    if (
        low > max(sender.right_edge, sender.highest)
        or low < sender.isn
        or high < sender.acked - sender.max_window
    ):
        return False
    if high > sender.fin_end or segment.flags & FIN:
        return False
    ack = unwrap(segment.ack, receiver.highest)
    if ack > receiver.highest or ack <= receiver.isn or ack < receiver.acked - receiver.max_window:
        return False
    if segment.has_timestamp:
        if segment.length and _is_old_duplicate(segment.ts_val, segment.ts, sender):
            return False
        if segment.ts - sender.next_old_seen_ts >= MAX_SEGMENT_AGE_US:
            _update_timestamp_limit(segment.ts_val, segment.ts, sender)
    sender.highest, sender.lowest = max(sender.highest, high), min(sender.lowest, low)
    sender.has_sent = True
    _acknowledge(receiver, ack, segment.window << sender.max_shift)
    return True


@inner
def _is_old_duplicate(ts_val, ts, sender):
    """Return whether a timestamp is older than the connection, or too old to be in transit.

    ts: time at which it passed (µs).
    """
    if ts - sender.next_old_seen_ts > OUTDATED_US:
        return False
    if sender.syn_ts_val != NONE and seq_diff(ts_val, np.uint32(sender.syn_ts_val)) < 0:
        return True
    return sender.old_ts_val != NONE and seq_diff(ts_val, np.uint32(sender.old_ts_val)) < 0


@inner
def _acknowledge(end, ack, window):
    """Record that an end's data is acknowledged, and that it is offered a window."""
    end.acked, end.highest, end.lowest = (
        max(end.acked, ack),
        max(end.highest, ack),
        min(end.lowest, ack),
    )
    end.right_edge, end.max_window = max(end.right_edge, ack + window), max(end.max_window, window)


@inner
def acceptability(packets, i, sender, receiver, next_packet):
    """Return whether its sender could have sent packet i, which is no SYN.

    The verdict is OUT_OF_WINDOW, IN_WINDOW, or MOVED: both ends continue there, though it is out of
    window. next_packet: int64, for each packet the next packet of the same ends, or -1.
    """
    flags = packets.tcp_flags[i]
    low = stream_position(packets.seq[i], sender)
    high = low + (0 if flags & RST else sequence_length(flags, packets.payload_len[i]))
    if flags & RST:
        return IN_WINDOW if _is_acceptable_rst(packets, i, low, sender, receiver) else OUT_OF_WINDOW
    verdict = IN_WINDOW
    if not _in_window(low, high, sender, receiver):
        if low < sender.isn:
            return OUT_OF_WINDOW
        evidence = _continuation_evidence(packets, i, high, sender, receiver, next_packet)
        if evidence == UNKNOWN:
            return OUT_OF_WINDOW
        verdict = MOVED if evidence == BY_ACK else IN_WINDOW
    is_old = packets.has_timestamps[i] and _is_old_duplicate(
        packets.ts_val[i], packets.ts[i], sender
    )
    if high > low and is_old:
        if low < sender.highest or not _is_data_acknowledged(packets, i, low, sender, next_packet):
            return OUT_OF_WINDOW
        # This sender's timestamp clock runs backwards.
        sender.syn_ts_val = sender.old_ts_val = sender.next_old_ts_val = NONE
    if flags & ACK and not (verdict == MOVED and sender.acked == NONE):
        ack = stream_position(packets.ack[i], receiver)
        if not _is_acceptable_ack(packets, i, ack, sender, receiver, next_packet):
            return OUT_OF_WINDOW
    return verdict


@inner
def _in_window(low, high, sender, receiver):
    """Return whether [low, high) lies in the window that the sender was offered."""
    if sender.highest == NONE:
        return True
    if low < sender.isn:
        return False
    if sender.right_edge == NONE:
        # The other end sent nothing yet: after a SYN only its retransmission may come.
        return low <= sender.highest if sender.syn_seen else abs(low - sender.highest) <= FAR
    if low > max(sender.right_edge, sender.highest) or high > sender.fin_end:
        return False
    return sender.acked == NONE or high >= sender.acked - sender.max_window


@inner
def _is_acceptable_rst(packets, i, low, sender, receiver):
    """Return whether the sender may have sent an RST.

    An end that refuses a SYN has no numbers of its own.
    """
    if sender.highest == NONE:
        ack = stream_position(packets.ack[i], receiver)
        is_checkable = packets.tcp_flags[i] & ACK and receiver.syn_seen
        return not is_checkable or receiver.isn < ack <= max(receiver.highest, receiver.right_edge)
    if low < sender.isn:
        return False
    if sender.acked != NONE and low < sender.acked - sender.max_window:
        return False
    unknown = MIN_WINDOW if sender.right_edge == NONE and not sender.syn_seen else 0
    return low <= max(sender.highest, sender.right_edge, sender.acked) + unknown


@inner
def _is_acceptable_ack(packets, i, ack, sender, receiver, next_packet):
    """Return whether the sender's packet i may acknowledge up to `ack`."""
    if receiver.highest == NONE:
        return True
    if ack <= receiver.isn or ack > receiver.fin_end:
        return False
    if ack <= receiver.highest:
        return receiver.acked == NONE or ack >= receiver.acked - receiver.max_window
    return _is_ack_confirmed(packets, i, ack, receiver, next_packet)


@inner
def _next_segment(packets, j, next_packet):
    """Return packet j, or the next packet of its ends that is no RST.

    -1 if there is none before a SYN, which may begin another connection.
    """
    while j >= 0 and packets.tcp_flags[j] & RST:
        j = next_packet[j]
    return -1 if j >= 0 and packets.tcp_flags[j] & (SYN | ACK) == SYN else j


@inner
def _is_ack_confirmed(packets, i, ack, receiver, next_packet):
    """Return whether packet i acknowledges data that the capture lacks or stamped later.

    The alternative is data that was never sent. An ACK is confirmed if its sender's ACKs do not go
    back. If it is far above all data seen, data must have been sent there, too.
    """
    offered = receiver.right_edge != NONE and ack <= receiver.right_edge
    is_near = offered or ack - receiver.highest <= NEAR
    ack_advances = ack_went_back = data_near_ack = False
    j = np.int64(i)
    for _ in range(MAX_LOOKAHEAD):
        j = _next_segment(packets, next_packet[j], next_packet)
        if j < 0:
            break
        is_soon = packets.ts[j] - packets.ts[i] <= JITTER_US
        if ack_went_back and not is_soon:
            break
        if packets.downlink[j] != packets.downlink[i]:
            start = stream_position(packets.seq[j], receiver)
            if is_soon and start < ack <= start + np.int64(packets.payload_len[j]):
                return True
            data_near_ack |= abs(start - ack) <= NEAR
            if not is_near and abs(start - receiver.highest) <= NEAR:
                return False
        elif packets.tcp_flags[j] & ACK:
            advance = seq_diff(packets.ack[j], packets.ack[i])
            ack_went_back |= advance < 0
            ack_advances = 0 <= advance <= FAR
            if is_near and not ack_went_back:
                return ack_advances or offered
    if ack_went_back:
        return False
    if data_near_ack and not is_near:
        return True
    return (
        offered or (is_near and not receiver.syn_seen) or (ack_advances and not receiver.has_sent)
    )


@inner
def _continuation_evidence(packets, i, high, sender, receiver, next_packet):
    """Return the evidence that the sender continues with packet i, which is out of window.

    BY_ACK: the other end acknowledges the packet's data, which ends at `high` in its stream. This
    counts under three conditions: the acknowledged data is out of window, too; it was not
    retransmitted within the window; and the ends do not return to their earlier numbers.
    BY_SILENCE: the other end is not seen any more, and the sender continues there. Else UNKNOWN.
    """
    limit = max(sender.highest, sender.right_edge)
    max_ack_distance = max(NEAR, min(sender.max_window, FAR))
    low = high - sequence_length(packets.tcp_flags[i], packets.payload_len[i])
    left_edge = sender.isn if sender.acked == NONE else sender.acked - sender.max_window
    is_far = low > limit + NEAR or (left_edge != NONE and high < left_edge)
    right_edge, ack_seen, is_acked, continuation = sender.right_edge, False, False, 0
    j = np.int64(i)
    for _ in range(MAX_LOOKAHEAD):
        j = _next_segment(packets, next_packet[j], next_packet)
        if j < 0:
            break
        same_direction = packets.downlink[j] == packets.downlink[i]
        number = stream_position(packets.seq[j] if same_direction else packets.ack[j], sender)
        in_known_window = left_edge != NONE and left_edge <= number <= limit
        if is_acked and in_known_window:
            return UNKNOWN
        if same_direction:
            if number == low < high and packets.payload_len[j] and number <= right_edge:
                return UNKNOWN
            continuation += 0 <= number - low <= FAR
        elif packets.tcp_flags[j] & ACK:
            ack_seen = True
            if in_known_window:
                shift = np.int64(0) if packets.tcp_flags[j] & SYN else receiver.max_shift
                right_edge = max(right_edge, number + (np.int64(packets.window[j]) << shift))
            elif high <= number <= high + max_ack_distance:
                is_acked = True
                if not is_far:
                    return BY_ACK
    if is_acked or ack_seen:
        return BY_ACK if is_acked else UNKNOWN
    is_plausible = low <= limit + FAR or not sender.syn_seen
    return (
        BY_SILENCE
        if is_plausible and (not receiver.has_sent or continuation >= MIN_CONTINUATION)
        else UNKNOWN
    )


@inner
def _is_data_acknowledged(packets, i, low, sender, next_packet):
    """Return whether the other end acknowledges packet i's data, though no other packet brings it.

    low: start of the data.
    """
    high = low + sequence_length(packets.tcp_flags[i], packets.payload_len[i])
    j = np.int64(i)
    for _ in range(MAX_LOOKAHEAD):
        j = _next_segment(packets, next_packet[j], next_packet)
        if j < 0:
            break
        if packets.downlink[j] == packets.downlink[i]:
            start = stream_position(packets.seq[j], sender)
            if start <= low < start + np.int64(packets.payload_len[j]):
                return False
        elif packets.tcp_flags[j] & ACK:
            if high <= stream_position(packets.ack[j], sender) <= high + NEAR:
                return True
    return False


@inner
def accept(packets, i, sender, receiver):
    """Update both ends with packet i, which its sender has sent."""
    flags = packets.tcp_flags[i]
    if flags & RST:
        if flags & ACK and receiver.highest == NONE:
            # The RST refuses a SYN that is captured later.
            receiver.lowest = receiver.highest = np.int64(packets.ack[i])
        return
    low = stream_position(packets.seq[i], sender)
    high = low + sequence_length(flags, packets.payload_len[i])
    if sender.acked != NONE and high < sender.acked - sender.max_window:
        # The ends continue with other numbers.
        sender.highest, sender.acked, sender.right_edge = high, NONE, NONE
    if high > sender.fin_end:
        sender.fin_end = NO_FIN
    if flags & SYN:
        syn_window = np.int64(packets.window[i])
        if flags & ACK:
            sender.right_edge = high + (
                MIN_WINDOW if sender.syn_window == NONE else sender.syn_window
            )
        else:
            receiver.syn_window, receiver.max_window = (
                syn_window,
                max(receiver.max_window, syn_window),
            )
        sender.isn, sender.syn_seen, sender.window_scale = (
            low,
            True,
            np.int64(packets.window_scale[i]),
        )
        if packets.options_cut[i] and sender.window_scale == NO_SCALE:
            sender.window_scale = MAX_WINDOW_SHIFT
        sender.max_shift, receiver.max_shift = (
            _max_shift(sender, receiver),
            _max_shift(receiver, sender),
        )
    sender.highest = max(sender.highest, high)
    if flags & FIN:
        sender.fin_end = high
    sender.lowest = low if sender.lowest == NONE else min(sender.lowest, low)
    sender.has_sent = True
    if flags & ACK:
        ack = stream_position(packets.ack[i], receiver)
        if receiver.acked != NONE and ack < receiver.acked - receiver.max_window:
            receiver.acked = receiver.right_edge = receiver.highest = NONE
        if ack > receiver.fin_end:
            receiver.fin_end = NO_FIN
        if receiver.lowest == NONE:
            receiver.lowest = ack
        shift = np.int64(0) if flags & SYN else sender.max_shift
        _acknowledge(receiver, ack, np.int64(packets.window[i]) << shift)
    if packets.has_timestamps[i]:
        if flags & SYN:
            sender.syn_ts_val = np.int64(packets.ts_val[i])
        if packets.ts[i] - sender.next_old_seen_ts >= MAX_SEGMENT_AGE_US:
            _update_timestamp_limit(packets.ts_val[i], packets.ts[i], sender)


@inner
def _max_shift(end, peer):
    """Return the maximum shift of an end's windows, except for a SYN's (RFC 7323, 2.2)."""
    if end.syn_seen and (
        end.window_scale == NO_SCALE or (peer.syn_seen and peer.window_scale == NO_SCALE)
    ):
        return np.int64(0)
    return min(end.window_scale, MAX_WINDOW_SHIFT) if end.syn_seen else np.int64(MAX_WINDOW_SHIFT)


@inner
def _update_timestamp_limit(ts_val, ts, sender):
    """Advance the timestamps below which the sender's segments are old duplicates."""
    if sender.next_old_ts_val != NONE and ts - sender.next_old_seen_ts > OUTDATED_US:
        sender.syn_ts_val = sender.old_ts_val = sender.next_old_ts_val = NONE
    if sender.next_old_ts_val == NONE or seq_diff(ts_val, np.uint32(sender.next_old_ts_val)) > 0:
        sender.old_ts_val, sender.next_old_ts_val, sender.next_old_seen_ts = (
            sender.next_old_ts_val,
            np.int64(ts_val),
            ts,
        )
        if sender.old_ts_val != NONE:
            sender.syn_ts_val = NONE  # it is older
