"""What limited a transfer, and for how long.

The time from a connection's handshake to the ACK of its last data is shared out, from one ACK to
the next, by what kept the server from sending faster or the link from carrying more:

channel     the access link was busy all along: what the later ACK answers had come to Gi an idle
            round trip before the earlier ACK, and waited
mobile      its window was closed; or all was acknowledged and it had not asked for more
receiver    its window was full, while the congestion window had room
recovery    a loss was being repaired, or had cut the congestion window
slow_start  the congestion window had not yet grown to what the link carries
server      it had room, or all was acknowledged, and sent nothing more

The idea is T-RAT's (Zhang, Breslau, Paxson and Shenker, SIGCOMM 2002), the conditions are those of
Siekkinen, Urvoy-Keller, Biersack and En-Najjary (CoNEXT 2005); that the link is busy, an ACK tells
only where it is seen between the two.
"""

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.sender.state import INFINITE_SSTHRESH, LIMITS, NEVER, OPEN
from spark_jobs.estimators.sequence import NONE

CHANNEL, RECEIVER, RECOVERY, SLOW_START, SERVER, MOBILE = range(len(LIMITS))

INTERVAL = np.dtype([("start", "i8"), ("end", "i8"), ("limit", "i1")])
"""From when to when (µs, the server's clock) a limit, into LIMITS, held the transfer up."""


@inner
def initialize(sender):
    """The transfer of SENDER s has not begun."""
    sender.limited[:] = 0.0
    sender.attributed_until = NEVER
    sender.requested_at = NEVER
    sender.link_was_busy = False


@inner
def start(sender, now):
    """The handshake is done."""
    sender.attributed_until = now


@inner
def note_request(sender, now):
    """The mobile sends data: it asks for something."""
    if sender.requested_at == NEVER:
        sender.requested_at = now


@inner
def attribute_time(sender, limit, now):
    """The time until now goes to a limit."""
    if now > sender.attributed_until and sender.attributed_until != NEVER:
        sender.limited[limit] += now - sender.attributed_until
        sender.attributed_until = now


@inner
def end_idle(sender, now):
    """Data is sent after all was acknowledged: until now the server had nothing to send, or had not
    been asked."""
    if sender.attributed_until != NEVER:
        if sender.requested_at != NEVER:
            attribute_time(sender, MOBILE, min(sender.requested_at, now))
        attribute_time(sender, SERVER, now)
    sender.attributed_until = now
    sender.requested_at = NEVER
    sender.link_was_busy = False


@inner
def is_link_busy(answered_sent_at, last_ack_at, context):
    """Whether the link was busy from one ACK to the next: what the later one answers, sent at
    `answered`, had come an idle round trip before the earlier one was heard."""
    return (
        answered_sent_at != NONE
        and answered_sent_at + context.clock.internet_rtt + context.access_rtt <= last_ack_at
    )


@inner
def current_limit(sender):
    """What holds the server back, as far as the link does not."""
    if sender.rwnd == 0:
        return MOBILE
    if sender.state != OPEN:
        return RECOVERY
    if sender.snd_una + sender.rwnd - sender.snd_nxt < sender.max_segment and sender.cwnd_has_room:
        return RECEIVER
    if not sender.cwnd_full:
        return SERVER
    return SLOW_START if sender.ssthresh == INFINITE_SSTHRESH else RECOVERY


def intervals(moments):
    """INTERVAL[K] of a connection's MOMENT[P] (see `replay`), in order, as long as they go.

    Of what one moment shares out, the mobile's part comes first (see `wake`).
    """
    order = np.array([MOBILE, CHANNEL, RECEIVER, RECOVERY, SLOW_START, SERVER])
    durations = np.diff(moments["limited"], axis=0)[:, order].astype(np.int64)
    still_to_come = np.cumsum(durations[:, ::-1], axis=1)[:, ::-1] - durations
    ends = moments["attributed_until"][1:, None] - still_to_come
    moment, column = np.nonzero(durations)
    pieces = np.empty(len(moment), INTERVAL)
    pieces["end"], pieces["limit"] = ends[moment, column], order[column]
    pieces["start"] = pieces["end"] - durations[moment, column]
    continues = (pieces["limit"][1:] == pieces["limit"][:-1]) & (
        pieces["start"][1:] == pieces["end"][:-1]
    )
    starts_new = np.concatenate([[True], ~continues])[: len(pieces)]
    joined = pieces[starts_new]
    joined["end"] = pieces["end"][np.concatenate([~continues, [True]])[: len(pieces)]]
    return joined
