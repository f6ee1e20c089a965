"""Limits of a transfer: what held it back, and for how long.

The time from a connection's set-up to the ACK of its last data is divided among six limits. Each
period between two ACKs goes to the limit that kept the server from sending faster, or the link from
carrying more:

channel     The access link was busy all the time. The data that the later ACK answers came to Gi
            at least one base RTT before the earlier ACK, so this data waited.
mobile      The mobile's window was closed. Or all was acknowledged, and the mobile had sent no
            request.
receiver    The mobile's window was full, while the congestion window had room.
recovery    The server repaired a loss, or a loss or a mark of ECN had reduced the congestion
            window.
slow_start  The congestion window had not yet grown to what the link carries.
server      The server had room, or all was acknowledged, and it sent nothing more.

The idea is that of T-RAT (Zhang, Breslau, Paxson and Shenker, SIGCOMM 2002). The conditions are
those of Siekkinen, Urvoy-Keller, Biersack and En-Najjary (CoNEXT 2005). ACKs show whether the link
is busy only because Gi lies between the link and the server.
"""

import numpy as np

from spark_jobs.compiled import inner
from spark_jobs.estimators.sender.state import INFINITE_SSTHRESH, LIMITS, NEVER, OPEN
from spark_jobs.estimators.sequence import NONE

CHANNEL, RECEIVER, RECOVERY, SLOW_START, SERVER, MOBILE = range(len(LIMITS))

INTERVAL = np.dtype([("start", "i8"), ("end", "i8"), ("limit", "i1")])
"""Interval in which one limit held the transfer back.

start, end: its bounds (µs, the server's clock)
limit: into LIMITS
"""


@inner
def initialize(sender):
    """Initialize the limits of a SENDER before its transfer begins."""
    sender.limited[:] = 0.0
    sender.attributed_until = NEVER
    sender.requested_at = NEVER
    sender.link_was_busy = False


@inner
def start(sender, now):
    """Begin to attribute time when the set-up is complete."""
    sender.attributed_until = now


@inner
def note_request(sender, now):
    """Record that the mobile sent data: a request."""
    if sender.requested_at == NEVER:
        sender.requested_at = now


@inner
def attribute_time(sender, limit, now):
    """Attribute the time until now to a limit."""
    if now > sender.attributed_until and sender.attributed_until != NEVER:
        sender.limited[limit] += now - sender.attributed_until
        if limit == RECOVERY and sender.is_reduced_by_marks:
            sender.limited_by_marks += now - sender.attributed_until
        sender.attributed_until = now


@inner
def end_idle(sender, now):
    """Attribute an idle period that ends with new data.

    All was acknowledged. Until now the server had nothing to send, or the mobile had sent no
    request.
    """
    if sender.attributed_until != NEVER:
        if sender.requested_at != NEVER:
            attribute_time(sender, MOBILE, min(sender.requested_at, now))
        attribute_time(sender, SERVER, now)
    sender.attributed_until = now
    sender.requested_at = NEVER
    sender.link_was_busy = False


@inner
def is_link_busy(answered_sent_at, last_ack_at, context):
    """Return whether the access link was busy from one ACK to the next.

    It was if the data that the later ACK answers had come to Gi at least one base RTT before the
    server received the earlier ACK, at last_ack_at. The server sent this data at answered_sent_at.
    """
    return (
        answered_sent_at != NONE
        and answered_sent_at + context.clock.internet_rtt + context.access_rtt <= last_ack_at
    )


@inner
def current_limit(sender):
    """Return the current limit, if it is not the access link."""
    if sender.rwnd == 0:
        return MOBILE
    if sender.state != OPEN or sender.reduced_at != NONE:
        return RECOVERY
    if sender.snd_una + sender.rwnd - sender.snd_nxt < sender.max_segment and sender.cwnd_has_room:
        return RECEIVER
    if not sender.cwnd_full:
        return SERVER
    return SLOW_START if sender.ssthresh == INFINITE_SSTHRESH else RECOVERY


def intervals(moments):
    """Return INTERVAL[K] of a connection's MOMENT[P] (see `replay`), in order of time.

    Consecutive intervals with the same limit are joined. Within the time that one moment
    attributes, the mobile's part comes first (see `end_idle`).
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
