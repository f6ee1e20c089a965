"""Connection set-up: delay, RTTs and the classification tree (INFOCOM III).

       initiator       Gi        responder
           | --- SYN --> | ----------> |
           |             | <- SYN ACK- |   SYN to SYN ACK: RTT on the responder's side
           | <---------- |             |
           | --- ACK --> |             |   SYN ACK to ACK: RTT on the initiator's side
                                           first SYN to first ACK: set-up delay

Departures from the paper

- The paper looks at connections that the mobile opens. Here a server may be the initiator, too;
  then the sides are exchanged.
- A data packet that acknowledges the SYN ACK ends the set-up as a bare ACK does.
- The end of a capture is taken as silence.
- The paper has no RTTs if SYNs were retransmitted. Here a timestamp's echo shows which SYN was
  answered (RFC 7323, 4.3).
- The cause of a retransmission is inferred, too: a loss, or a first RTO (1 s by RFC 6298, 2.1) that
  was too short (`setup_retransmissions`).
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators.probes import ignored_packets_before
from spark_jobs.estimators.tcp import ACK, RST, SYN, seq_diff

UNKNOWN, MOBILE, SERVER = 0, 1, 2
INITIATORS = ("unknown", "mobile", "server")
"""Names of UNKNOWN, MOBILE and SERVER."""

NOT_SEEN, OPTIMAL, SLIGHT_PROBLEM, NO_RESPONSE, SERIOUS_PROBLEM, REFUSED = range(-1, 5)
SETUP_CLASSES = ("optimal", "slight_problem", "no_response", "serious_problem", "refused")
"""Names of the set-up categories from OPTIMAL on."""

SILENCE_BEFORE_US = 5_000_000
"""Silence after which the bottleneck's buffer is empty (INFOCOM III.A)."""
INITIAL_RTO_US = 3_000_000
"""RTT from which on it cannot be distinguished from a retransmission's (INFOCOM III.B)."""

NO_TIME = np.int64(-(2**62))
"""Value of a time that is not known."""

UNDECIDED, PREMATURE, LOST = range(-1, 2)
RETRANSMISSION_CAUSES = ("premature", "lost")
"""Names of PREMATURE and LOST: causes of a SYN's or SYN ACK's retransmission."""
FIRST, LATER = 0, 1
"""The SYN or SYN ACK that was answered: the first, or a later one."""

HANDSHAKE = np.dtype(
    [
        ("initiator", "i1"),
        ("setup_class", "i1"),
        ("reset", "?"),
        ("syn_count", "i8"),
        ("synack_count", "i8"),
        ("syn_ts", "i8"),
        ("synack_ts", "i8"),
        ("ack_ts", "i8"),
        ("answered_syn_ts", "i8"),
        ("answered_synack_ts", "i8"),
        ("last_ts", "i8"),
    ],
    align=True,
)
"""A connection's handshake; times are in µs, or NO_TIME.

initiator: the end that began it
setup_class: its category in the paper's tree
reset: an RST ended a set-up that had its SYN ACK
syn_count, synack_count: numbers of SYN and SYN ACK packets
syn_ts, synack_ts, ack_ts: times of the first SYN, the first SYN ACK and the first ACK
answered_syn_ts: time of the SYN whose timestamp the first SYN ACK echoes
answered_synack_ts: time of the SYN ACK whose timestamp the first ACK echoes
last_ts: time of the last packet of the set-up
"""


@compiled
def handshakes(segments, connections):
    """Return HANDSHAKE[C] of Segments and their Connections."""
    out = np.zeros(len(connections.user), HANDSHAKE)
    for c in range(len(out)):
        _handshake(connections.first[c], connections.first[c + 1], segments, out[c])
    return out


@inner
def _handshake(start, end, segments, out):
    ts, downlink, flags = segments.ts, segments.downlink, segments.tcp_flags
    out.syn_ts = out.synack_ts = out.ack_ts = out.last_ts = NO_TIME
    out.answered_syn_ts = out.answered_synack_ts = NO_TIME
    refused = other_traffic = by_initiator = False
    synack_seq = np.uint32(0)
    first_syn = start
    while first_syn < end and flags[first_syn] & (SYN | ACK) != SYN:
        first_syn += 1
    initiator_downlink = first_syn < end and downlink[first_syn]
    for i in range(start, end):
        from_initiator = first_syn < end and downlink[i] == initiator_downlink
        if flags[i] & SYN and not flags[i] & ACK:
            if out.syn_count == 0:
                out.initiator = SERVER if downlink[i] else MOBILE
                out.syn_ts = ts[i]
            if from_initiator:
                out.syn_count += 1
                out.last_ts = ts[i]
        elif flags[i] & SYN:
            if not from_initiator:
                out.synack_count += 1
                synack_seq = segments.seq[i]
                out.last_ts = ts[i]
                if out.synack_ts == NO_TIME:
                    out.synack_ts = ts[i]
                    out.answered_syn_ts = _echoed_ts(start, i, segments)
        elif out.ack_ts != NO_TIME:
            continue
        elif flags[i] & RST:
            if out.synack_count:
                out.reset, by_initiator = True, from_initiator
                out.last_ts = ts[i]
            elif first_syn < end and not from_initiator:
                refused = True
                out.last_ts = ts[i]
        elif from_initiator and out.synack_count and (by_initiator or not out.reset):
            if flags[i] & ACK and seq_diff(segments.ack[i], synack_seq) >= 1:
                out.reset = False  # the RST answered a SYN ACK of another connection
                out.ack_ts = ts[i]
                out.answered_synack_ts = _echoed_ts(start, i, segments)
        else:
            other_traffic = True
    out.setup_class = _setup_class(out, refused, other_traffic)
    if out.setup_class != SERIOUS_PROBLEM:
        out.reset = False


@inner
def _echoed_ts(start, i, segments):
    """Return the time of the SYN or SYN ACK whose timestamp segment i echoes.

    Segments from `start` on are searched. NO_TIME if none or more than one fits.
    """
    found = NO_TIME
    if segments.has_timestamps[i]:
        for k in range(start, i):
            if segments.tcp_flags[k] & SYN and segments.downlink[k] != segments.downlink[i]:
                if segments.has_timestamps[k] and segments.ts_val[k] == segments.ts_ecr[i]:
                    if found != NO_TIME:
                        return NO_TIME
                    found = segments.ts[k]
    return found


@inner
def _setup_class(handshake, refused, other_traffic):
    """Return the category in the tree of Fig. 5.

    NOT_SEEN if the SYN was not seen, or if the connection continued without a SYN ACK at the
    monitor.
    """
    if handshake.syn_count == 0:
        return NOT_SEEN
    if handshake.ack_ts != NO_TIME:
        if handshake.syn_count == 1 and handshake.synack_count == 1:
            return OPTIMAL
        return SLIGHT_PROBLEM
    if handshake.synack_count:
        return SERIOUS_PROBLEM
    if other_traffic:
        return NOT_SEEN
    return REFUSED if refused else NO_RESPONSE


@compiled
def setup_retransmissions(handshake, segments, connections, base_us):
    """Return int8[C]: the cause of a SYN's or SYN ACK's retransmission, or UNDECIDED.

    The value is an index into RETRANSMISSION_CAUSES. base_us: float64[C], the user's base RTT on
    the access side (µs).

    PREMATURE: the first SYN ACK answers the first SYN, and the first ACK answers that SYN ACK, so
    all retransmissions were spurious. LOST: one of them answers a retransmission. Timestamps show
    this. Without timestamps, a retransmission is ignored if it came after its possible answer, or
    too shortly before it. If a SYN ACK was retransmitted although its server must have received the
    ACK, the cause is undecided: the ACK was lost, or the server waits for data.
    """
    out = np.full(len(handshake), np.int8(UNDECIDED))
    for c in range(len(out)):
        row = handshake[c]
        if row.setup_class != SLIGHT_PROBLEM:
            continue
        begin, end = connections.first[c], connections.first[c + 1]
        from_mobile = row.initiator == MOBILE
        access_us = np.int64(base_us[c]) if base_us[c] > 0 else np.int64(0)
        first_syn = (row.syn_ts, row.answered_syn_ts, np.int64(0) if from_mobile else access_us)
        first_synack = (
            row.synack_ts,
            row.answered_synack_ts,
            access_us if from_mobile else np.int64(0),
        )
        syn_answered = _answered_syn(
            first_syn, row.synack_ts, (begin, end), segments, not from_mobile
        )
        synack_answered = _answered_syn(
            first_synack, row.ack_ts, (begin, end), segments, from_mobile
        )
        if syn_answered == LATER or synack_answered == LATER:
            out[c] = LOST
        elif syn_answered == FIRST and synack_answered == FIRST:
            ack_arrival_ts = row.ack_ts + (row.synack_ts - row.syn_ts)
            if _last_syn(begin, end, segments, from_mobile) <= ack_arrival_ts:
                out[c] = PREMATURE
    return out


@inner
def _answered_syn(first, answer_ts, span, segments, downlink):
    """Return which SYN or SYN ACK of one direction is answered at answer_ts.

    The result is FIRST, LATER or UNDECIDED. first: time of the first one, time of the one whose
    timestamp is echoed (or NO_TIME), and minimum time until an answer (µs). span: the connection's
    segments.
    """
    first_ts, echoed_ts, min_answer_us = first
    if echoed_ts != NO_TIME:
        return FIRST if echoed_ts == first_ts else LATER
    for i in range(span[0], span[1]):
        if segments.ts[i] + min_answer_us > answer_ts:
            break
        if segments.tcp_flags[i] & SYN and segments.downlink[i] == downlink:
            if segments.ts[i] > first_ts:
                return UNDECIDED
    return FIRST


@inner
def _last_syn(begin, end, segments, downlink):
    """Return the time of the last SYN or SYN ACK of one direction."""
    last = NO_TIME
    for i in range(begin, end):
        if segments.tcp_flags[i] & SYN and segments.downlink[i] == downlink:
            last = segments.ts[i]
    return last


@compiled
def background(handshake, segments, connections, packets):
    """Return bool[C]: the user had background traffic before or during the set-up (INFOCOM III.A).

    That is another packet in the 5 s before the first SYN, or until the first ACK, which ends the
    set-up. False if there was no SYN. A silence of exactly 5 s is long enough. Probes and their
    answers do not count, because they are too small to fill a buffer.
    """
    out = np.zeros(len(handshake), np.bool_)
    ignored_before = ignored_packets_before(segments, packets)
    for c in range(len(handshake)):
        if handshake[c].syn_ts == NO_TIME:
            continue
        low = handshake[c].syn_ts - SILENCE_BEFORE_US
        acked = handshake[c].ack_ts != NO_TIME
        high = handshake[c].ack_ts if acked else handshake[c].last_ts
        user = connections.user[c]
        first_packet, end = _within(
            packets.ts, packets.first[user], packets.first[user + 1], low, high
        )
        packet_count = end - first_packet - (ignored_before[end] - ignored_before[first_packet])
        begin, end = _within(segments.ts, connections.first[c], connections.first[c + 1], low, high)
        out[c] = packet_count > np.count_nonzero(segments.probe[begin:end] == 0)
    return out


@inner
def _within(ts, begin, end, low, high):
    """Return the range of indices of ts[begin:end], which ascends, with times in (low, high]."""
    times = ts[begin:end]
    start, stop = np.searchsorted(times, low, "right"), np.searchsorted(times, high, "right")
    return begin + start, begin + stop


def setup_delay(handshake):
    """Return float64[C], s: time from the first SYN to the first ACK (INFOCOM III.A).

    NaN if either was not seen, or if the SYN came after its SYN ACK, as in a capture of two clocks.
    """
    return _seconds(handshake["syn_ts"], handshake["ack_ts"], _in_order(handshake))


def _in_order(handshake):
    """Return bool[C]: the SYN was seen, and not after the SYN ACK."""
    synack_ts = handshake["synack_ts"]
    is_late = (synack_ts != NO_TIME) & (synack_ts < handshake["syn_ts"])
    return (handshake["syn_count"] > 0) & ~is_late


def handshake_rtts(handshake, had_background, max_rtt_us=INITIAL_RTO_US):
    """Return the RTTs of the handshake on the (access side, Internet side), s (INFOCOM III.B).

    NaN unless all of this holds: the handshake was completed; there were exactly one SYN and one
    SYN ACK, or timestamps show which one was answered; there was no background traffic; and the RTT
    is below the initial RTO.
    """
    once = (handshake["syn_count"] == 1) & (handshake["synack_count"] == 1)
    is_usable = (handshake["ack_ts"] != NO_TIME) & ~had_background & _in_order(handshake)
    max_rtt_s = (max_rtt_us - 1) / 1e6
    syn_ts = np.where(once, handshake["syn_ts"], handshake["answered_syn_ts"])
    synack_ts = np.where(once, handshake["synack_ts"], handshake["answered_synack_ts"])
    responder_rtt = _seconds(syn_ts, handshake["synack_ts"], is_usable)
    initiator_rtt = _seconds(synack_ts, handshake["ack_ts"], is_usable)
    for rtt in (responder_rtt, initiator_rtt):
        rtt[~(rtt <= max_rtt_s)] = np.nan
    mobile = handshake["initiator"] == MOBILE
    return np.where(mobile, initiator_rtt, responder_rtt), np.where(
        mobile, responder_rtt, initiator_rtt
    )


def _seconds(start, end, is_usable):
    """Return end - start in s; NaN if a time is missing or they are in reverse order."""
    known = is_usable & (start != NO_TIME) & (end != NO_TIME) & (end >= start)
    return np.where(known, (end - start) / 1e6, np.nan)
