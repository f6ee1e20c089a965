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
from spark_jobs.compiled.arrays import true_indices
from spark_jobs.estimators.sender import flight
from spark_jobs.estimators.sender.sending import DUPLICATES
from spark_jobs.estimators.sender.state import LONG_AGO
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

BRIEF_US = 1_000_000
"""A silence that is no stall, but longer than this (µs)"""
USUAL = 3
"""and than so many times what lies between two ACKs in a round trip, may be a flush."""

STALL = np.dtype(
    [
        ("connection", "i8"),
        ("start", "i8"),
        ("end", "i8"),
        ("low", "i8"),
        ("high", "i8"),
        ("segments", "i8"),
        ("recovered", "i8"),
        ("ended_by", "i8"),
        ("kind", "i1"),
        ("by_timeout", "?"),
        ("brief", "?"),
    ]
)
"""A stall: of which connection, from when to when (µs, the server's clock); what was in flight when
it began: its range of the stream, in how many segments; when all of that was acknowledged, or NONE;
which segment of the connection ended it; its class (into CLASSES); by_timeout: the timer did, so
that the server starts slowly; brief: no stall, unless it is a flush."""


@inner
def is_stall(s, now):
    """Whether the silence until now is one, of SENDER s."""
    if s.last_at == LONG_AGO:
        return False
    patience = s.rto if s.srtt == 0 else min(2 * s.srtt, s.rto)
    return now - s.last_at > patience


@inner
def is_brief(s, now):
    """Whether a silence until now that is no stall is longer than a busy link's."""
    silence, under_way = now - s.last_at, s.tail - s.head
    if s.last_at == LONG_AGO or silence <= BRIEF_US or under_way <= DUPLICATES:
        return False
    return silence * under_way > USUAL * 2 * s.srtt  # an ACK answers two


@inner
def note(s, row, i, now):
    """A silence ends with segment i: what is known of it before that is heard or sent."""
    row.start, row.end, row.ended_by = s.last_at, now, i
    row.low, row.high, row.segments = s.acked, s.highest, s.tail - s.head
    row.recovered = NONE
    row.by_timeout = False


@inner
def class_of_heard(s):
    """The class of a stall that the mobile ends, before it is heard."""
    if s.offered == 0:
        return ZERO_WINDOW
    return CLIENT_IDLE if s.head == s.tail else PACKET_DELAY


@inner
def class_of_sent(s, sent, low):
    """The class of a stall that the server ends with a segment from `low` on, before it is sent."""
    if s.offered == 0:
        return ZERO_WINDOW
    if low >= s.highest:
        return DATA_UNAVAILABLE
    k = flight.first_beyond(s, sent, low)
    if k < s.tail and sent[k].copies > 1:
        return DOUBLE_RETRANSMISSION
    if s.tail - s.head <= DUPLICATES:
        return SMALL_WINDOW
    return TAIL_RETRANSMISSION if s.tail - k <= DUPLICATES else CONTINUOUS_LOSS


@inner
def recover(s, stalls, begin, end, now):
    """What was in flight in stalls [begin, end) may be acknowledged by now. Returns the first of
    which it is not."""
    while begin < end and stalls[begin].high <= s.acked:
        stalls[begin].recovered = now
        begin += 1
    return begin


LOST = np.dtype([("known", "?"), ("lost", "i8"), ("run", "i8"), ("after", "i8")])
"""Of what was in flight in a stall: whether it is known what became of it; how many segments were
lost on the access side, and how many in a row at most; how many of those sent after that run arrived."""


NO_INTERRUPTION, PAUSE, FLUSH = range(3)
INTERRUPTIONS = ("none", "pause", "flush")


@compiled
def interruptions(stalls, lost, segments, connections, packets):
    """uint8[S], into INTERRUPTIONS: which STALL[S], with LOST[S], look like one of the link."""
    out = np.zeros(len(stalls), np.uint8)
    sent = true_indices(~packets.downlink)
    for k in range(len(stalls)):
        kind, told, place = stalls[k].kind, lost[k], segments.place[stalls[k].ended_by]
        user = connections.user[stalls[k].connection]
        before = np.searchsorted(sent, place) - 1  # the last that came from a mobile
        heard = before >= 0 and sent[before] >= packets.first[user]
        if not told.known or (heard and packets.ts[sent[before]] > stalls[k].start):
            continue
        if kind == PACKET_DELAY and told.lost == 0:
            out[k] = PAUSE
        elif kind in (PACKET_DELAY, CONTINUOUS_LOSS) and told.run > DUPLICATES and told.after > 0:
            out[k] = FLUSH
    return out


@compiled
def lost_in(stalls, segments, first, probability):
    """LOST[S] of STALL[S], of Segments of connections that begin at first, int64[C + 1];
    probability float32[N]: of having been lost on the access side."""
    out = np.zeros(len(stalls), LOST)
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
                    if run > row.run:
                        row.run, row.after = run, arrived
                else:
                    run = np.int64(0)
                    arrived += 1
            i -= 1
    return out
