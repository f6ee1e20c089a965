"""Gaps in a sender's IP IDs: packets that it sent and Gi never saw, missed or not.

Some senders count a connection's packets alone by their IP IDs (see `ip_ids`). Then each ID that no
packet carries is a packet lost on the Internet side. A packet that was reordered comes with its ID
a little later. The neighbours of a gap, the packets sent before and after it, show what was lost:

- What other evidence shows (see `internet`): new data, or a retransmission that was due. If other
  evidence shows a lost retransmission, but no ID is missing, it was not lost.
- An ACK without data, if the server had to acknowledge uplink data and no such ACK was seen.
- An earlier transmission of the next packet, if that packet is new and all was acknowledged an RTO
  ago.
- New data, if the next packet answers duplicate ACKs, but comes after an ACK that let more be sent.
- The data after the retransmission before the gap (RFC 5681, 3.1: all data from there on is
  retransmitted), without what the mobile reported by SACK.
- After a silence longer than an RTT: the last segment as a loss probe (RFC 8985, 7.3), which may be
  a FIN without data; or the first segment that is not acknowledged (RFC 6298, 5.4).
- After duplicate ACKs: the segment that they ask for.
- An earlier transmission of the next packet, if that is a retransmission, too.

So the number of lost data packets is better known than their place in the stream. IDs that nothing
explains went to other packets. If these are more than a few of all, or more retransmissions were
lost than packets came, the IDs of the connection are not used.
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import inner, making
from spark_jobs.estimators import ip_ids
from spark_jobs.estimators.loss.evidence import (
    HOLE,
    IP_ID,
    NO_PACKET,
    Detection,
    add_loss,
)
from spark_jobs.estimators.sequence import (
    MAX_WORK,
    NONE,
    search_begin,
    sequence_length,
    unwrap,
)
from spark_jobs.estimators.tcp import DUP_THRESH, FIN, RST, SYN

GAP = np.dtype(
    [
        ("first_id", "i8"),
        ("count", "i8"),
        ("absent", "i8"),
        ("late_old_data", "i8"),
        ("preceding", "i8"),
        ("following", "i8"),
        ("highest_sent", "i8"),
        ("data_end", "i8"),
        ("acked", "i8"),
        ("explained", "i8"),
        ("retransmissions", "i8"),
        ("retransmitted_from", "i8"),
        ("unexplained", "i8"),
    ]
)
"""IP IDs that were passed over.

first_id: the first of them
count: number of them
absent: number of them that no packet has brought since
late_old_data: number of packets that brought one since and carry no new data
preceding, following: indexes of the packets before and after the gap, as Gi saw them
highest_sent: highest number sent at that time
data_end: end of the data sent at that time
acked: highest ACK at that time
explained: number of absent IDs that other evidence explains
retransmissions: number of absent IDs that were retransmissions of data
retransmitted_from: number in the stream where these begin
unexplained: number of absent IDs that nothing explains
"""

MAX_ACK_DELAY_US = 500_000
"""Maximum time in which a server acknowledges, with delayed ACKs (RFC 1122, 4.2.3.2)."""
MIN_RTT_SHARE = 0.9
"""Minimum delay of an answer, as a share of the base RTT: Gi's clock has ticks, too."""
MAX_UNEXPLAINED_SHARE = 0.25
"""Maximum share of the missing IDs that may be unexplained."""
NO_DATA = np.int64(NONE + 1)
"""Number that stands for a packet without data."""


class Gaps(NamedTuple):
    """Gaps of a connection."""

    rows: np.ndarray
    """GAP[..], in order of IDs."""
    size: np.ndarray
    """int64[1]: number of gaps."""


class SenderTraits(NamedTuple):
    """Properties of a connection's sender."""

    sack: bool
    max_segment: np.int64
    """Largest segment (B)."""
    internet_rtt: float
    """Base RTT on the Internet side (µs); 0: unknown."""
    access_rtt: float
    """Base RTT on the access side (µs)."""
    slack: int
    """Minimum difference between an RTO and the RTT of both sides (µs)."""


class Surroundings(NamedTuple):
    """Packets between the last data before a gap and the packet after the gap."""

    last_data: np.int64
    """Index of the segment with this data."""
    acked: np.int64
    """Highest ACK when it passed."""
    highest_acked: np.int64
    """Highest ACK at the end."""
    max_silence: np.int64
    """Longest time without an ACK of data, or data (µs)."""
    acked_in_silence: np.int64
    """Highest ACK during this silence."""
    dup_acks: np.int64
    """Number of ACKs that acknowledged nothing new."""
    last_dup_ack: np.int64
    """Number that the last of these acknowledged."""
    since_last_ack: np.int64
    """Time since the last ACK (µs)."""


@inner
def add_packet(gaps, stream, transmission, acked):
    """Update Gaps by a packet whose IP ID does not follow the latest one of the STREAM.

    acked: the highest ACK.
    """
    ip_id = transmission.ip_id
    if ip_id == 0:
        return  # no ID: a counter that wraps would have gone on from 65535
    ahead = ip_ids.ahead(ip_id, stream.latest_ip_id)
    if stream.latest_ip_id < 0:
        stream.latest_ip_id = ip_id
    elif ahead < 0:
        _fill_gap(gaps, stream.latest_ip_id + ahead, transmission)
    elif ahead > 0:
        gap = gaps.rows[gaps.size[0]]
        gap.first_id, gap.count = stream.latest_ip_id + 1, ahead - 1
        gap.absent, gap.late_old_data, gap.explained = gap.count, 0, 0
        gap.preceding, gap.following = stream.last_segment, transmission.segment_index
        gap.highest_sent, gap.data_end, gap.acked = stream.highest_sent, stream.data_end, acked
        gaps.size[0] += 1
        stream.latest_ip_id += ahead
    elif (ip_id - stream.latest_ip_id) & 0xFFFF:
        if ip_id == (stream.distant_ip_id + 1) & 0xFFFF:  # the counter was reset
            stream.latest_ip_id += 0x20000 + ((ip_id - stream.latest_ip_id) & 0xFFFF)
        stream.distant_ip_id = ip_id


@inner
def _fill_gap(gaps, ip_id, transmission):
    """Fill an ID of a gap: the packet with this ID has come."""
    k = gaps.size[0] - 1
    while k >= 0 and gaps.rows[k].first_id > ip_id:
        k -= 1
    if k < 0:
        return
    gap = gaps.rows[k]
    if gap.absent > 0 and ip_id < gap.first_id + gap.count:
        gap.absent -= 1
        if transmission.data_end == transmission.start or transmission.start < gap.highest_sent:
            gap.late_old_data += 1


@making
def explain_by_losses(gaps, losses, first_loss):
    """Count the absent IDs that losses explain, and return whether some losses have no absent ID.

    The losses are those of the LossList from first_loss on. Those without an absent ID are
    retransmissions; they are marked by NO_PACKET in shown_by.
    """
    unshown = False
    steps_left = np.full(1, MAX_WORK * (gaps.size[0] + losses.size[0] - first_loss))
    for is_hole in (True, False):
        for k in range(first_loss, losses.size[0]):
            loss = losses.rows[k]
            if (loss.evidence == HOLE) != is_hole:
                continue
            gap_index = _gap_of_loss(gaps, loss, is_hole, steps_left)
            if gap_index >= 0:
                gaps.rows[gap_index].explained += loss.packets
            elif not is_hole and steps_left[0] >= 0:
                loss.shown_by = NO_PACKET
                unshown = True
    return unshown


@inner
def remove_unshown(losses, first_loss):
    """Remove the losses from first_loss on that no absent ID shows."""
    kept = first_loss
    for k in range(first_loss, losses.size[0]):
        if losses.rows[k].shown_by != NO_PACKET:
            losses.rows[kept] = losses.rows[k]
            kept += 1
    losses.size[0] = kept


@inner
def _gap_of_loss(gaps, loss, is_hole, steps_left):
    """Return the index of the gap that a loss left, or -1.

    The gap lies before the packet that showed the loss. For new data it may lie before an earlier
    retransmission.
    """
    last = _last_gap_before(gaps, loss.shown_by)
    for k in range(last, search_begin(0, last, steps_left[0]) - 1, -1):
        steps_left[0] -= 1
        gap = gaps.rows[k]
        if gap.following < loss.shown_by and (not is_hole or gap.highest_sent != loss.shown_from):
            return -1
        if gap.explained + loss.packets <= gap.absent:
            return k
    return -1


@inner
def _last_gap_before(gaps, segment):
    """Return the index of the last gap before a segment or an earlier one, or -1."""
    k, end = 0, gaps.size[0]
    while k < end:
        middle = (k + end) >> 1
        if gaps.rows[middle].following <= segment:
            k = middle + 1
        else:
            end = middle
    return k - 1


@making
def classify(gaps, data_packets, span, segments, sender):
    """Classify the absent IDs of each gap, and return whether the IDs count this connection alone.

    data_packets: number of data packets seen; span: bounds of the connection's segments.
    """
    explained = unexplained = retransmissions = 0
    steps_left = np.full(1, MAX_WORK * (span[1] - span[0]))
    for k in range(gaps.size[0]):
        gap = gaps.rows[k]
        gap.retransmissions = gap.unexplained = 0
        if steps_left[0] < 0:  # to explain this one would take too long
            gap.unexplained = max(gap.absent - gap.explained, 0)
        else:
            if gap.absent > gap.explained:
                _explain_hole(gap, span[1], segments, sender, steps_left)
            if gap.absent > gap.explained:
                _classify_gap(gap, span[0], segments, sender, steps_left)
        explained += gap.explained
        retransmissions += gap.retransmissions
        unexplained += gap.unexplained
    return (
        unexplained <= MAX_UNEXPLAINED_SHARE * (explained + retransmissions + unexplained)
        and retransmissions <= data_packets
    )


@inner
def _explain_hole(gap, end, segments, sender, steps_left):
    """Explain absent IDs by new data that was missing and is not among the losses.

    The capture dropped this data, or it was reordered. A single number is that of a FIN. end: end
    of the connection's segments.
    """
    shown_by = gap.following
    while shown_by < end and not _implies_sent(shown_by, gap.highest_sent, segments):
        shown_by += 1
    steps_left[0] -= shown_by - gap.following
    hole = segments.number[shown_by] - gap.highest_sent if shown_by < end else 0
    if hole > 0 and (shown_by == gap.following or hole == 1):
        pieces = -(-hole // sender.max_segment) - (gap.count - gap.absent - gap.late_old_data)
        gap.explained = max(gap.explained, min(gap.absent, pieces))


@inner
def _implies_sent(i, highest_sent, segments):
    """Return whether a segment shows that its sender had sent all up to highest_sent."""
    if not segments.downlink[i] or segments.number[i] == NONE:
        return False
    if segments.tcp_flags[i] & FIN == 0 and segments.payload_len[i] == 0:
        return segments.number[i] > highest_sent
    return segments.number[i] >= highest_sent


@inner
def _classify_gap(gap, begin, segments, sender, steps_left):
    """Classify the absent IDs of a gap that nothing else explains."""
    following = gap.following
    is_bare = segments.payload_len[following] == 0 and segments.tcp_flags[following] & FIN == 0
    unexplained = gap.absent - gap.explained
    if segments.probe[gap.preceding] or segments.probe[following]:
        gap.explained += unexplained  # the absent IDs are those of other probes
        return
    acks = min(unexplained, max(_due_acks(gap, begin, segments, sender, steps_left) - is_bare, 0))
    gap.explained += acks
    unexplained -= acks
    if unexplained == 0:
        return
    around = _surroundings(gap, begin, segments, sender.sack)
    steps_left[0] -= following - around.last_data
    in_flight = -(-(gap.highest_sent - around.acked) // sender.max_segment)
    if is_bare and unexplained > max(in_flight, 1) + 1:
        return  # another counter's ID: the connection is in TIME-WAIT
    number = _retransmitted_number(gap, around, begin, segments, sender, steps_left)
    if number == NO_DATA:
        gap.explained += unexplained
    elif number == NONE:
        gap.unexplained = unexplained
    else:
        gap.retransmissions, gap.retransmitted_from = unexplained, number


@inner
def _retransmitted_number(gap, around, begin, segments, sender, steps_left):
    """Return the number of the data that was sent in a gap.

    NO_DATA: it was a FIN or an ACK. NONE: the sender had no reason to send any.
    """
    start, length = segments.number[gap.following], segments.payload_len[gap.following]
    end = segments.number[around.last_data] + segments.payload_len[around.last_data]
    wait = sender.internet_rtt + sender.access_rtt
    went_back = end < gap.data_end and _has_data_or_fin(around.last_data, segments)
    is_late = around.since_last_ack > wait + sender.slack
    has_dup_acks = around.dup_acks >= (1 if sender.sack else DUP_THRESH)
    if (
        gap.acked >= gap.highest_sent
        and start == gap.highest_sent
        and is_late
        and not has_dup_acks
        and not went_back
    ):
        return start if length > 0 else NO_DATA
    if around.acked >= gap.data_end:
        return NO_DATA
    if start == gap.acked < gap.data_end and around.dup_acks and not is_late and not went_back:
        return gap.highest_sent
    if went_back and around.acked <= end and (start != end or around.max_silence <= wait):
        if around.highest_acked >= end or around.max_silence <= wait:
            return _first_unsacked(end, gap, begin, segments, steps_left)
    if start == gap.highest_sent and around.since_last_ack > wait and not has_dup_acks:
        return start if length > 0 else NO_DATA
    if around.max_silence > wait:
        if (
            sender.sack
            and not has_dup_acks
            and not _was_loss_probe(around, begin, segments, wait, steps_left)
        ):
            carries_data = segments.number[around.last_data] < gap.data_end
            if gap.highest_sent > gap.data_end and (
                _end_number(around.last_data, segments) <= gap.data_end or not carries_data
            ):
                return NO_DATA
            return max(gap.data_end - sender.max_segment, around.acked_in_silence)
        return around.acked_in_silence
    if around.dup_acks > 0:
        return around.last_dup_ack
    if start < gap.data_end:
        return start
    retransmitted = _last_retransmission(around, begin, segments, wait, steps_left)
    return (
        _first_unsacked(max(retransmitted, around.acked), gap, begin, segments, steps_left)
        if retransmitted != NONE
        else NONE
    )


@inner
def _last_retransmission(around, begin, segments, wait, steps_left):
    """Return the number after the last retransmission before the data sent last, or NONE.

    Only retransmissions within `wait` (µs) before this data count.
    """
    ts, ip_id = segments.ts, segments.ip_id
    last_data = around.last_data
    i = last_data
    while i > begin and ts[last_data] - ts[i] <= wait:
        i -= 1
    steps_left[0] -= last_data - i
    highest = retransmitted = NONE
    highest_id = np.int64(0)
    while i < last_data:
        if _has_data_or_fin(i, segments):
            end = _end_number(i, segments)
            if end > highest:
                highest, highest_id = end, np.int64(ip_id[i])
            elif ip_ids.ahead(ip_id[i], highest_id) > 0:
                retransmitted = end
        i += 1
    return retransmitted


@inner
def _was_loss_probe(around, begin, segments, wait, steps_left):
    """Return whether the data sent last was a loss probe.

    A loss probe is a retransmission of the last segment, or new data after a silence (RFC 8985,
    7.3).
    """
    number, downlink = segments.number, segments.downlink
    last_data = around.last_data
    earlier = last_data - 1
    ack_between = False
    while earlier >= begin and not _has_data_or_fin(earlier, segments):
        ack_between |= not downlink[earlier] and NONE < number[earlier] < around.acked
        earlier -= 1
    steps_left[0] -= last_data - earlier
    if earlier < begin:
        return False
    is_retransmission = _end_number(earlier, segments) >= _end_number(last_data, segments)
    is_retransmission &= (
        ip_ids.ahead(segments.ip_id[last_data], np.int64(segments.ip_id[earlier])) > 0
    )
    return is_retransmission or (
        not ack_between and segments.ts[last_data] - segments.ts[earlier] > wait
    )


@inner
def _has_data_or_fin(i, segments):
    """Return whether a segment is a downlink one and carries data or a FIN."""
    has_data_or_fin = segments.payload_len[i] > 0 or segments.tcp_flags[i] & FIN != 0
    return has_data_or_fin and segments.downlink[i] and segments.number[i] != NONE


@inner
def _end_number(i, segments):
    """Return the number after a segment."""
    return segments.number[i] + sequence_length(segments.tcp_flags[i], segments.payload_len[i])


@inner
def _first_unsacked(number, gap, begin, segments, steps_left):
    """Return the first number from `number` on that the last ACK before a gap's end did not report.

    NO_DATA: it reported all data.
    """
    i = gap.following - 1
    while i > begin and (segments.downlink[i] or segments.number[i] == NONE):
        i -= 1
    steps_left[0] -= gap.following - i
    at, count = segments.sack_at[i], np.int64(segments.sack_count[i])
    for _ in range(count // 2):
        for k in range(at, at + count - 1, 2):
            low = unwrap(segments.sack_edges[k], number)
            high = unwrap(segments.sack_edges[k + 1], number)
            number = high if low <= number < high else number
    return number if number < gap.data_end else NO_DATA


@inner
def _surroundings(gap, begin, segments, sack):
    """Return the Surroundings of a gap."""
    ts, number = segments.ts, segments.number
    downlink, payload_len = segments.downlink, segments.payload_len
    last_data = gap.preceding
    while last_data > begin and not _has_data_or_fin(last_data, segments):
        last_data -= 1
    i = last_data - 1
    while i >= begin and (downlink[i] or number[i] == NONE):
        i -= 1
    acked = number[i] if i >= begin else number[last_data]
    highest_acked = acked_in_silence = last_dup_ack = acked
    dup_acks = max_silence = np.int64(0)
    last_at = ts[last_data]
    for i in range(last_data + 1, gap.following + 1):
        if number[i] == NONE or (downlink[i] and i < gap.following):
            continue
        if ts[i] - last_at > max_silence:
            max_silence, acked_in_silence = ts[i] - last_at, highest_acked
        if downlink[i]:
            continue
        last_at = ts[i]
        if number[i] <= highest_acked and number[i] < gap.highest_sent and payload_len[i] == 0:
            if segments.sack_count[i] > 0 or not sack:
                dup_acks += 1
                last_dup_ack = highest_acked
        highest_acked = max(highest_acked, number[i])
    since_last_ack = ts[gap.following] - last_at
    return Surroundings(
        np.int64(last_data),
        acked,
        highest_acked,
        max_silence,
        acked_in_silence,
        dup_acks,
        last_dup_ack,
        since_last_ack,
    )


@inner
def _due_acks(gap, begin, segments, sender, steps_left):
    """Return the number of ACKs without data that the server had to send in a gap."""
    ts, flags, up_number = segments.ts, segments.tcp_flags, segments.up_number
    preceding, following = gap.preceding, gap.following
    min_delay = np.int64(MIN_RTT_SHARE * sender.internet_rtt)
    max_delay = np.int64(sender.internet_rtt) + MAX_ACK_DELAY_US
    due = np.int64(0)
    last_bare_at = NONE  # when the last packet without data passed
    i = following - 1
    while i >= begin and ts[i] > ts[preceding] - max_delay:
        if flags[i] & (SYN | RST):
            i -= 1
            continue
        length = np.int64(segments.payload_len[i]) + (flags[i] & FIN != 0)
        if segments.downlink[i]:
            if length == 0 and last_bare_at == NONE:
                last_bare_at = ts[i]
        elif length > 0:
            earliest_answer = ts[i] + min_delay
            is_retransmission = up_number[i] + length <= segments.up_number[preceding]
            delay = max_delay if is_retransmission else min_delay
            due += last_bare_at < earliest_answer <= ts[following] and ts[preceding] < ts[i] + delay
        i -= 1
    steps_left[0] -= following - i
    return due


@inner
def add_losses(gap, losses, segments, sender):
    """Add the lost retransmissions of a gap to the LossList.

    They follow each other in the stream, as far as there was so much data.
    """
    following = gap.following
    end = max(gap.data_end, segments.number[following] + segments.payload_len[following])
    low = gap.retransmitted_from
    for _ in range(gap.retransmissions):
        high = low + sender.max_segment
        if low == segments.number[following]:
            high = min(high, low + segments.payload_len[following])
        elif low < end:
            high = min(high, end)
        detection = Detection(segments.ts[following], np.int64(following), low, NO_PACKET)
        add_loss(losses, low, high, detection, IP_ID, 1.0)
        losses.rows[losses.size[0] - 1].packets = 1
        low = (
            high
            if high < end or gap.retransmitted_from == gap.highest_sent
            else gap.retransmitted_from
        )
