"""Stalls: a connection falls silent for longer than its own timing explains.

That is longer than two smoothed round trips, or than the timeout if this is less (Zhou et al.,
CoNEXT 2015, whose classes these are). What ends the silence tells why it was:

data_unavailable   the server sends new data: it had none before
client_idle        the mobile asks for more, or ends the connection
zero_window        the mobile opens its window
packet_delay       an ACK comes after all: data or the ACK was late
double_retransmission      a segment is sent once more that had been retransmitted already
tail_retransmission        so few segments were sent after the one retransmitted that their duplicate ACKs
                   could not tell of its loss
small_window       the same, for so few were in flight
continuous_loss    enough were, but nothing was heard of them: all were lost, or their ACKs
ack_delay          one of the four above, but nothing was lost: ACKs were late, or lost. The sender
                   cannot tell; the loss estimator can

A mobile network interrupts the link itself: then nothing at all comes from the mobile, of whatever
connection or protocol. What was in flight tells which interruption it was:

pause   it comes late, but comes: a cell reselection or a handover that forwards what is queued
flush   of it more than a few segments in a row are lost, and what was sent after them arrives: the
        head of the queue is flushed, as by a call that preempts the channel (s1)

Where the queue is long, so are round trips, and an interruption of some seconds is no stall. But a
busy link is heard again and again in a round trip: a silence of several times its usual one, and of
a second, is looked at too, and counts if it turns out to be a flush.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.compiled.arrays import places_where
from spark_jobs.estimators.sender import scoreboard
from spark_jobs.estimators.sender.state import NEVER
from spark_jobs.estimators.sender.transmissions import DUP_THRESH
from spark_jobs.estimators.sequence import NONE

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

MIN_BRIEF_US = 1_000_000
"""A silence that is no stall, but longer than this (µs)"""
BRIEF_FACTOR = 3
"""and than so many times what lies between two ACKs in a round trip, may be a flush."""

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
"""A stall: of which connection, from when to when (µs, the server's clock); what was in flight when
it began: its range of the stream, in how many segments; when all of that was acknowledged, or NONE;
which segment of the connection ended it; its class (into CLASSES); by_timeout: the timer did, so
that the server starts slowly; brief: no stall, unless it is a flush."""


@inner
def is_stall(sender, now):
    """Whether the silence until now is one, of SENDER s."""
    if sender.last_event_at == NEVER:
        return False
    max_silence = sender.rto if sender.srtt == 0 else min(2 * sender.srtt, sender.rto)
    return now - sender.last_event_at > max_silence


@inner
def is_brief(sender, now):
    """Whether a silence until now that is no stall is longer than a busy link's."""
    silence, unacked = now - sender.last_event_at, sender.tail - sender.head
    if sender.last_event_at == NEVER or silence <= MIN_BRIEF_US or unacked <= DUP_THRESH:
        return False
    return silence * unacked > BRIEF_FACTOR * 2 * sender.srtt  # an ACK answers two


@inner
def write_stall(sender, row, i, now):
    """A silence ends with segment i: what is known of it before that is heard or sent."""
    row.start, row.end, row.ended_by = sender.last_event_at, now, i
    row.low, row.high, row.segments = sender.snd_una, sender.snd_nxt, sender.tail - sender.head
    row.recovered_at = NONE
    row.ended_by_rto = False


@inner
def class_if_mobile_ends(sender):
    """The class of a stall that the mobile ends, before it is heard."""
    if sender.rwnd == 0:
        return ZERO_WINDOW
    return CLIENT_IDLE if sender.head == sender.tail else PACKET_DELAY


@inner
def class_if_server_ends(sender, sent, low):
    """The class of a stall that the server ends with a segment from `low` on, before it is sent."""
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
    """What was in flight in stalls [begin, end) may be acknowledged by now. Returns the first of
    which it is not."""
    while begin < end and stalls[begin].high <= sender.snd_una:
        stalls[begin].recovered_at = now
        begin += 1
    return begin


STALL_LOSSES = np.dtype(
    [("known", "?"), ("lost", "i8"), ("lost_run", "i8"), ("arrived_after", "i8")]
)
"""Of what was in flight in a stall: whether it is known what became of it; how many segments were
lost on the access side, and how many in a row at most; how many of those sent after that run arrived."""


NO_INTERRUPTION, PAUSE, FLUSH = range(3)
INTERRUPTIONS = ("none", "pause", "flush")


@compiled
def interruptions(stalls, losses, segments, connections, packets):
    """uint8[S], into INTERRUPTIONS: which STALL[S], with LOST[S], look like one of the link."""
    out = np.zeros(len(stalls), np.uint8)
    uplink = places_where(~packets.downlink)
    for k in range(len(stalls)):
        stall_class, loss, context = (
            stalls[k].stall_class,
            losses[k],
            segments.place[stalls[k].ended_by],
        )
        user = connections.user[stalls[k].connection]
        last_uplink = np.searchsorted(uplink, context) - 1  # the last that came from a mobile
        was_heard = last_uplink >= 0 and uplink[last_uplink] >= packets.first[user]
        if not loss.known or (was_heard and packets.ts[uplink[last_uplink]] > stalls[k].start):
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
    """LOST[S] of STALL[S], of Segments of connections that begin at first, int64[C + 1];
    probability float32[N]: of having been lost on the access side."""
    out = np.zeros(len(stalls), STALL_LOSSES)
    for k in range(len(stalls)):
        stall, row = stalls[k], out[k]
        row.known = True
        run, arrived = np.int64(0), np.int64(0)
        i = stall.ended_by - 1
        while i >= first[stall.connection]:
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
            i -= 1
    return out
