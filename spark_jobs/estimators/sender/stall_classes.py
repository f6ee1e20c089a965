"""Stalls of a connection and their classes.

A stall is a silence longer than two smoothed RTTs, or longer than the RTO if the RTO is less. The
classes are those of Zhou et al. (CoNEXT 2015). The packet that ends the silence shows its cause:

data_unavailable       The server sends new data: it had none before.
client_idle            The mobile sends another request, or ends the connection.
zero_window            The mobile opens its window.
packet_delay           An ACK comes after all: the data or the ACK was late.
double_retransmission  The server retransmits a segment that it had retransmitted already.
tail_retransmission    The server retransmits a segment. So few segments followed it that their
                       duplicate ACKs could not indicate its loss.
small_window           The same, because few segments were in flight.
continuous_loss        Enough segments were in flight, but no ACK came: all were lost, or all ACKs.
ack_delay              One of the four classes above, but nothing was lost: ACKs were late, or lost.
                       The sender cannot detect this; the loss estimator can.

A mobile network can interrupt the link itself. Then no packet of any connection or protocol comes
from the mobile. The data in flight shows which interruption it was:

pause   The data arrives late: a cell reselection, or a handover that forwards the queue.
flush   More than a few segments in a row are lost, and later segments arrive. The head of the queue
        was flushed, as by a call that preempts the channel (s1).

A long queue makes RTTs long, so that an interruption of some seconds is no stall. But on a busy
link many ACKs come within one RTT. So a silence of a second that is several times the usual time
between ACKs is examined, too. It counts if it turns out to be a flush.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.compiled.arrays import true_indices
from spark_jobs.estimators.sender import scoreboard
from spark_jobs.estimators.sender.state import NEVER
from spark_jobs.estimators.sequence import NONE, search_begin, search_steps
from spark_jobs.estimators.tcp import DUP_THRESH

(
    DATA_UNAVAILABLE,
    CLIENT_IDLE,
    ZERO_WINDOW,
    PACKET_DELAY,
    DOUBLE_RETRANSMISSION,
    TAIL_RETRANSMISSION,
    SMALL_WINDOW,
    CONTINUOUS_LOSS,
    ACK_DELAY,
) = range(9)
CLASSES = (
    "data_unavailable",
    "client_idle",
    "zero_window",
    "packet_delay",
    "double_retransmission",
    "tail_retransmission",
    "small_window",
    "continuous_loss",
    "ack_delay",
)
BY_RETRANSMISSION = (DOUBLE_RETRANSMISSION, TAIL_RETRANSMISSION, SMALL_WINDOW, CONTINUOUS_LOSS)
"""Classes of stalls that a retransmission ends."""

MIN_BRIEF_US = 1_000_000
"""Minimum length of a silence that is no stall, but may be a flush (µs)."""
BRIEF_FACTOR = 3
"""Minimum length of such a silence, in usual times between two ACKs of an RTT."""

STALL = np.dtype(
    [
        ("connection", "i8"),
        ("start", "i8"),
        ("end", "i8"),
        ("low", "i8"),
        ("high", "i8"),
        ("segments", "i8"),
        ("recovered_at", "i8"),
        ("ended_by", "i8"),
        ("stall_class", "i1"),
        ("ended_by_rto", "?"),
        ("brief", "?"),
    ]
)
"""Stall of a connection.

connection: index of the connection
start, end: its bounds (µs, the server's clock)
low, high: range of the stream that was in flight when it began
segments: number of segments in flight then
recovered_at: when all of these were acknowledged; or NONE
ended_by: index of the segment that ended it
stall_class: into CLASSES
ended_by_rto: an RTO expiry ended it, so that the server starts slowly
brief: it is no stall, unless it is a flush
"""


@inner
def is_stall(sender, now):
    """Return whether the silence of a SENDER until now is a stall."""
    if sender.last_event_at == NEVER:
        return False
    max_silence = sender.rto if sender.srtt == 0 else min(2 * sender.srtt, sender.rto)
    return now - sender.last_event_at > max_silence


@inner
def is_brief(sender, now):
    """Return whether a silence until now that is no stall is longer than a busy link's."""
    silence, unacked = now - sender.last_event_at, sender.tail - sender.head
    if sender.last_event_at == NEVER or silence <= MIN_BRIEF_US or unacked <= DUP_THRESH:
        return False
    return silence * unacked > BRIEF_FACTOR * 2 * sender.srtt  # an ACK answers two


@inner
def write_stall(sender, row, i, now):
    """Write the start of a silence that segment i ends, before the sender processes it."""
    row.start, row.end, row.ended_by = sender.last_event_at, now, i
    row.low, row.high, row.segments = sender.snd_una, sender.snd_nxt, sender.tail - sender.head
    row.recovered_at = NONE
    row.ended_by_rto = False


@inner
def class_if_mobile_ends(sender):
    """Return the class of a stall that the mobile ends.

    To be called before its packet is processed.
    """
    if sender.rwnd == 0:
        return ZERO_WINDOW
    return CLIENT_IDLE if sender.head == sender.tail else PACKET_DELAY


@inner
def class_if_server_ends(sender, sent, low):
    """Return the class of a stall that the server ends by a segment from `low` on.

    To be called before the segment is processed.
    """
    if sender.rwnd == 0:
        return ZERO_WINDOW
    if low >= sender.snd_nxt:
        return DATA_UNAVAILABLE
    k = scoreboard.first_above(sender, sent, low)
    if k < sender.tail and sent[k].transmissions > 1:
        return DOUBLE_RETRANSMISSION
    if sender.tail - sender.head <= DUP_THRESH:
        return SMALL_WINDOW
    return TAIL_RETRANSMISSION if sender.tail - k <= DUP_THRESH else CONTINUOUS_LOSS


@inner
def mark_recovered(sender, stalls, begin, end, now):
    """Mark stalls in [begin, end) as recovered if all that was in flight is acknowledged by now.

    Returns the index of the first stall that is not recovered.
    """
    while begin < end and stalls[begin].high <= sender.snd_una:
        stalls[begin].recovered_at = now
        begin += 1
    return begin


STALL_LOSSES = np.dtype(
    [("known", "?"), ("lost", "i8"), ("lost_run", "i8"), ("arrived_after", "i8")]
)
"""Losses among the segments in flight in a stall.

known: the fate of all is known
lost: number of segments lost on the access side
lost_run: maximum number lost in a row
arrived_after: number of segments sent after this run that arrived
"""


NO_INTERRUPTION, PAUSE, FLUSH = range(3)
INTERRUPTIONS = ("none", "pause", "flush")


@compiled
def interruptions(stalls, losses, segments, connections, packets):
    """Return uint8[S], into INTERRUPTIONS: the link interruption that each stall looks like.

    stalls: STALL[S]; losses: STALL_LOSSES[S].
    """
    out = np.zeros(len(stalls), np.uint8)
    uplink = true_indices(~packets.downlink)
    for k in range(len(stalls)):
        stall_class, loss = stalls[k].stall_class, losses[k]
        ended_by = segments.place[stalls[k].ended_by]
        user = connections.user[stalls[k].connection]
        # the last uplink packet before the stall ended
        last_uplink = np.searchsorted(uplink, ended_by) - 1
        has_uplink = last_uplink >= 0 and uplink[last_uplink] >= packets.first[user]
        if not loss.known or (has_uplink and packets.ts[uplink[last_uplink]] > stalls[k].start):
            continue
        if stall_class == PACKET_DELAY and loss.lost == 0:
            out[k] = PAUSE
        elif (
            stall_class in (PACKET_DELAY, CONTINUOUS_LOSS)
            and loss.lost_run > DUP_THRESH
            and loss.arrived_after > 0
        ):
            out[k] = FLUSH
    return out


@compiled
def losses_in(stalls, segments, first, probability):
    """Return STALL_LOSSES[S] of STALL[S]; unknown if the searches of a connection take too long.

    segments: N Segments; first: int64[C + 1], where the segments of each connection begin;
    probability: float32[N], the probability that a segment was lost on the access side.
    """
    out = np.zeros(len(stalls), STALL_LOSSES)
    steps_left = search_steps(first)
    for k in range(len(stalls)):
        stall, row = stalls[k], out[k]
        run, arrived = np.int64(0), np.int64(0)
        c = stall.connection
        begin = search_begin(first[c], stall.ended_by, steps_left[c])
        row.known = True
        for i in range(stall.ended_by - 1, begin - 1, -1):
            steps_left[c] -= 1
            if segments.downlink[i] and segments.payload_len[i]:
                if segments.number[i] + np.int64(segments.payload_len[i]) <= stall.low:
                    break
                row.known &= not np.isnan(probability[i])
                if probability[i] > 0.5:
                    row.lost += 1
                    run += 1
                    if run > row.lost_run:
                        row.lost_run, row.arrived_after = run, arrived
                else:
                    run = np.int64(0)
                    arrived += 1
        else:
            row.known &= begin == first[c]
    return out
