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
from spark_jobs.estimators.sender.state import BEFORE_ANY_LOSS, LIMITS, LONG_AGO, OPEN
from spark_jobs.estimators.sequence import NONE

CHANNEL, RECEIVER, RECOVERY, SLOW_START, SERVER, MOBILE = range(len(LIMITS))

INTERVAL = np.dtype([("start", "i8"), ("end", "i8"), ("limit", "i1")])
"""From when to when (µs, the server's clock) a limit, into LIMITS, held the transfer up."""


@inner
def begin(s):
    """The transfer of SENDER s has not begun."""
    s.limited[:] = 0.0
    s.shared_until = LONG_AGO
    s.asked_at = LONG_AGO
    s.was_busy = False


@inner
def start(s, now):
    """The handshake is done."""
    s.shared_until = now


@inner
def ask(s, now):
    """The mobile sends data: it asks for something."""
    if s.asked_at == LONG_AGO:
        s.asked_at = now


@inner
def share(s, limit, now):
    """The time until now goes to a limit."""
    if now > s.shared_until and s.shared_until != LONG_AGO:
        s.limited[limit] += now - s.shared_until
        s.shared_until = now


@inner
def wake(s, now):
    """Data is sent after all was acknowledged: until now the server had nothing to send, or had not
    been asked."""
    if s.shared_until != LONG_AGO:
        if s.asked_at != LONG_AGO:
            share(s, MOBILE, min(s.asked_at, now))
        share(s, SERVER, now)
    s.shared_until = now
    s.asked_at = LONG_AGO
    s.was_busy = False


@inner
def is_busy(answered, heard, place):
    """Whether the link was busy from one ACK to the next: what the later one answers, sent at
    `answered`, had come an idle round trip before the earlier one was heard."""
    return answered != NONE and answered + place.clock.round_trip + place.base <= heard


@inner
def limit_of(s):
    """What holds the server back, as far as the link does not."""
    if s.offered == 0:
        return MOBILE
    if s.state != OPEN:
        return RECOVERY
    if s.acked + s.offered - s.highest < s.largest and s.has_room:
        return RECEIVER
    if not s.full:
        return SERVER
    return SLOW_START if s.ssthresh == BEFORE_ANY_LOSS else RECOVERY


def intervals(moments):
    """INTERVAL[K] of a connection's MOMENT[P] (see `replay`), in order, as long as they go.

    Of what one moment shares out, the mobile's part comes first (see `wake`).
    """
    order = np.array([MOBILE, CHANNEL, RECEIVER, RECOVERY, SLOW_START, SERVER])
    shares = np.diff(moments["limited"], axis=0)[:, order].astype(np.int64)
    left = np.cumsum(shares[:, ::-1], axis=1)[:, ::-1] - shares
    ends = moments["shared_until"][1:, None] - left
    moment, place = np.nonzero(shares)
    out = np.empty(len(moment), INTERVAL)
    out["end"], out["limit"] = ends[moment, place], order[place]
    out["start"] = out["end"] - shares[moment, place]
    goes_on = (out["limit"][1:] == out["limit"][:-1]) & (out["start"][1:] == out["end"][:-1])
    begins = np.concatenate([[True], ~goes_on])[: len(out)]
    joined = out[begins]
    joined["end"] = out["end"][np.concatenate([~goes_on, [True]])[: len(out)]]
    return joined
