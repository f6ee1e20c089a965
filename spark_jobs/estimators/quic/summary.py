"""QUIC's connections: volumes, set-up, round trips of the handshake, bursts.

A handshake as Gi sees it; SCID and DCID are the source and destination connection ID:

    client                 Gi                  server
      | Initial, DCID x     |                    |
      |-------------------->|------------------->|     rtt_internet: from an Initial that the client
      |                     | Initial, SCID s    |     sent once to the packet that answers it
      |<--------------------|<-------------------|
      | Initial, DCID s     |                    |     rtt_access: from there to the client's first
      |-------------------->|------------------->|     packet that has no longer the DCID x
      | Handshake, 1-RTT    |                    |
      |-------------------->|------------------->|     setup_delay: from the first Initial to here
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators.coverage import BOTH, DOWN, UP
from spark_jobs.estimators.quic.packets import (
    COALESCED_CUT,
    HANDSHAKE,
    INITIAL,
    ONE_RTT,
    RETRY,
    UNREACHABLE,
    VERSION_NEGOTIATION,
    ZERO_RTT,
)

SAME_FLIGHT_US = 100_000
"""Time within which Initials are one flight (µs): a long first message takes several datagrams."""
SURE_TIMEOUT_US = 900_000
"""Time after which an Initial of the same length as the one before it is a repetition (µs).

A sender that knows nothing of the path waits a second (RFC 9002, 6.2.2); some wait less. In less
time, it may be the second part of a message, behind the first one on a slow uplink.
"""
MAX_DOUBT = 0.02
"""Maximum share of a set-up delay by which it may be longer than it says."""
MAX_ACK_BYTES = 64
"""Maximum length of an Initial that only acknowledges (B). The shortest ServerHello needs 84."""
MIN_ELICITING_BYTES = 1228
"""Minimum IP length of a datagram with an Initial that needs an answer (B), RFC 9000, 14.1."""
MIN_PADDED_BYTES = 1190
"""Minimum length of an Initial that is padded itself (B). What follows it is no padding."""
COMPLETES = 1 << HANDSHAKE | 1 << ONE_RTT
"""Coalesced forms that a client sends once it has the server's handshake."""
UNSEEN, OPTIMAL, REPEATED, RETRIED, NEGOTIATED, NO_RESPONSE, REFUSED, SERIOUS = range(8)
SETUP_CLASSES = (
    *("", "optimal", "initial_repeated", "retry", "version_negotiation", "no_response"),
    *("refused", "serious_problem"),
)
"""Set-up categories, as schemas.quic_flows names them; UNSEEN has no name."""
MIN_RATE_BYTES = 16 * 1024
"""Minimum of IP bytes to the mobile for a downlink rate (B), as for a period of channel_rates."""
NEVER = np.int64(-(2**62))

QUIC_CONNECTION = np.dtype(
    [
        ("user", "i8"),
        ("server", "i8"),
        ("user_port", "u2"),
        ("server_port", "u2"),
        ("start", "i8"),
        ("end", "i8"),
        ("begin_seen", "?"),
        ("has_version", "?"),
        ("clock_stepped", "?"),
        ("zero_rtt", "?"),
        ("zero_rtt_cut", "?"),
        ("version", "u4"),
        ("packets_up", "i8"),
        ("packets_down", "i8"),
        ("ip_bytes_up", "i8"),
        ("ip_bytes_down", "i8"),
        ("directions_seen", "i1"),
        ("setup_class", "i1"),
        ("initials", "i8"),
        ("setup_delay", "f8"),
        ("rtt_internet", "f8"),
        ("rtt_access", "f8"),
        ("bursts", "i8"),
        ("active", "f8"),
        ("downlink_rate", "f8"),
        ("first_dcid", "u4"),
    ],
    align=True,
)
"""A QUIC connection, with the columns of schemas.QUIC_FLOWS; unknown times are NaN.

user, server: their numbers
start, end: times of its first and last packet (µs)
directions_seen: index into coverage.DIRECTIONS
setup_class: index into SETUP_CLASSES
zero_rtt_cut: what followed an Initial of the client's first flight was not captured
first_dcid: destination connection ID of its first packet
"""
HANDSHAKE_STATE = np.dtype(
    [
        ("sent_ts", "i8"),
        ("last_ts", "i8"),
        ("sent", "i8"),
        ("length", "u4"),
        ("parts", "i8"),
        ("repeated", "?"),
        ("unclear", "?"),
        ("answer_ts", "i8"),
        ("perhaps_ts", "i8"),
        ("client_dcid", "u4"),
        ("version", "u4"),
        ("keeps_id", "?"),
        ("answered_again", "?"),
        ("retried", "?"),
        ("negotiated", "?"),
        ("refused", "?"),
        ("completed", "?"),
        ("client_reached", "?"),
    ],
    align=True,
)
"""A handshake in progress.

sent_ts, sent: time of the first Initial that has no answer yet (µs), and number of such flights
length, parts, last_ts: length of the flight's first part (B; 0: not known), number of its parts,
    and time of the last one (µs)
repeated: the client repeated its first flight before the server's first packet
unclear: what looks like that may be the second part of the flight
client_dcid, version: latest destination connection ID before that answer; version of the flight
keeps_id: the client knew the server's connection ID before that answer
answer_ts: time of the server's first packet that needs an answer of the client (µs)
answered_again: this packet may not be the one that the client answers: the server repeated it
perhaps_ts: time of the client's first packet after which another one may follow that completes the
    handshake, but the capture cut it off (µs)
client_reached: the client showed that it had the server's answer
"""


@compiled
def summaries(packets, order, first):
    """Return QUIC_CONNECTION[C] from QuicPackets.

    order, first: connection c has the packets order[first[c]:first[c + 1]], by time.
    """
    out = np.zeros(len(first) - 1, QUIC_CONNECTION)
    states = np.zeros(1, HANDSHAKE_STATE)
    for c in range(len(out)):
        row, span = out[c], order[first[c] : first[c + 1]]
        i = span[0]
        row.user, row.server = packets.user[i], packets.server[i]
        row.user_port, row.server_port = packets.user_port[i], packets.server_port[i]
        row.start, row.end = packets.ts[i], packets.ts[span[-1]]
        row.first_dcid = packets.dcid[i] if packets.has_dcid[i] else 0
        row.setup_delay = row.rtt_internet = row.rtt_access = np.nan
        is_first_flight = packets.form[i] == INITIAL or packets.form[i] == ZERO_RTT
        row.begin_seen = is_first_flight and not packets.downlink[i]
        row.clock_stepped = packets.clock_steps[span[0]] != packets.clock_steps[span[-1]]
        state = states[0]
        state.answer_ts = state.perhaps_ts = NEVER
        state.sent = state.client_dcid = state.version = 0
        state.keeps_id = False
        state.repeated = state.unclear = state.answered_again = False
        state.retried = state.negotiated = False
        state.refused = state.completed = state.client_reached = False
        for i in span:
            _count(row, packets, i)
            if row.begin_seen and not (state.completed and state.client_reached):
                _follow_handshake(row, state, packets, i)
        if row.packets_up and row.packets_down:
            row.directions_seen = BOTH
        else:
            row.directions_seen = UP if row.packets_up else DOWN
        row.setup_class = _setup_class(row, state)
        if row.clock_stepped:
            row.setup_delay = row.rtt_internet = row.rtt_access = np.nan
    return out


@inner
def _count(row, packets, i):
    """Add packet i to the volumes of its QUIC_CONNECTION."""
    if packets.form[i] == UNREACHABLE:
        return
    if packets.has_version[i] and packets.version[i]:
        row.version, row.has_version = packets.version[i], True
    if packets.downlink[i]:
        row.packets_down += 1
        row.ip_bytes_down += packets.ip_len[i]
    else:
        row.packets_up += 1
        row.ip_bytes_up += packets.ip_len[i]
        row.zero_rtt |= packets.form[i] == ZERO_RTT or packets.coalesced[i] & (1 << ZERO_RTT) != 0


@inner
def _follow_handshake(row, state, packets, i):
    """Update a HANDSHAKE_STATE and its QUIC_CONNECTION with the connection's packet i."""
    form, ts = packets.form[i], packets.ts[i]
    if form == UNREACHABLE:
        state.refused |= packets.downlink[i] and row.packets_down == 0
        return
    if packets.downlink[i]:
        _follow_server(row, state, packets, i)
        return
    coalesced, is_initial = packets.coalesced[i], form == INITIAL
    completes = form == HANDSHAKE or form == ONE_RTT or (is_initial and coalesced & COMPLETES != 0)
    is_cut = is_initial and coalesced & COALESCED_CUT != 0 and not completes
    # Once a client has a packet of the server's, it acknowledges it, and has another destination
    # connection ID, unless it knew it by a Retry packet or an acknowledgment.
    acknowledges = is_initial and 0 < packets.length[i] <= MAX_ACK_BYTES
    knows_server = acknowledges or (packets.has_dcid[i] and packets.dcid[i] != state.client_dcid)
    if is_cut and state.keeps_id and not knows_server:
        state.answered_again |= packets.length[i] == 0  # it may be an acknowledgment
        if state.perhaps_ts == NEVER:
            state.perhaps_ts = ts
    if is_initial and (state.sent == 0 or not (knows_server or completes)):
        row.zero_rtt_cut |= is_cut
        if state.answer_ts == NEVER:
            row.initials += row.packets_down == 0
            _add_to_flight(row, state, packets, i)
        return
    if row.packets_down == 0 or form == ZERO_RTT:
        return
    if state.answer_ts == NEVER:
        state.client_dcid = packets.dcid[i]
    elif not state.client_reached:
        state.client_reached = True
        if not state.answered_again:
            row.rtt_access = (ts - state.answer_ts) / 1e6
    completes |= is_cut and packets.length[i] >= MIN_PADDED_BYTES
    if is_cut and state.perhaps_ts == NEVER:
        state.perhaps_ts = ts
    if completes and not state.completed:
        state.completed = True
        first_ts = ts if state.perhaps_ts == NEVER else state.perhaps_ts
        if ts - first_ts <= MAX_DOUBT * (ts - row.start):
            row.setup_delay = (first_ts - row.start) / 1e6


@inner
def _add_to_flight(row, state, packets, i):
    """Update a HANDSHAKE_STATE with packet i, an Initial of the client's that has no answer yet.

    Parts of a message that take different datagrams differ in length, or follow each other at once.
    """
    ts, length = packets.ts[i], packets.length[i]
    if state.sent == 0:
        is_old = state.retried and packets.dcid[i] == state.client_dcid
        if is_old or (state.negotiated and packets.version[i] == state.version):
            return  # sent before the server's demand came
        state.sent, state.parts, state.version = 1, 1, packets.version[i]
        state.sent_ts = state.last_ts = ts
        state.client_dcid, state.length = packets.dcid[i], length
        return
    is_other = length > 0 and state.length > 0 and length != state.length
    if state.parts == 1 and (ts - state.last_ts <= SAME_FLIGHT_US or is_other):
        state.parts, state.last_ts = 2, ts
    elif ts - state.last_ts > SAME_FLIGHT_US:
        may_be_part = state.parts == 1 and state.sent == 1 and ts - state.sent_ts < SURE_TIMEOUT_US
        state.sent += 1
        if row.packets_down == 0:
            state.unclear, state.repeated = may_be_part, not may_be_part


@inner
def _follow_server(row, state, packets, i):
    """Update a HANDSHAKE_STATE and its QUIC_CONNECTION with the server's packet i."""
    form, ts = packets.form[i], packets.ts[i]
    is_short = 0 < packets.length[i] <= MAX_ACK_BYTES or packets.ip_len[i] < MIN_ELICITING_BYTES
    acknowledges = form == INITIAL and is_short and packets.coalesced[i] & COMPLETES == 0
    if state.sent == 1 and np.isnan(row.rtt_internet):
        # A server acknowledges the first part of a message, but answers the whole.
        is_answer = (form == INITIAL or form == HANDSHAKE) and not acknowledges
        row.rtt_internet = (ts - (state.last_ts if is_answer else state.sent_ts)) / 1e6
    if form == VERSION_NEGOTIATION:
        state.sent *= state.negotiated
        state.negotiated = True
    elif form == RETRY:
        state.sent *= state.retried  # a client heeds only the first one (RFC 9000, 17.2.5.2)
        state.retried = True
    elif acknowledges:
        return
    elif state.answer_ts == NEVER:
        if form == INITIAL or form == HANDSHAKE:
            state.answer_ts, state.answered_again = ts, form == HANDSHAKE
            state.keeps_id = packets.scid[i] == state.client_dcid
    elif form == INITIAL and ts - state.answer_ts > SAME_FLIGHT_US:
        state.answered_again = True


@inner
def _setup_class(row, state):
    """Return the set-up category of a QUIC_CONNECTION."""
    if not row.begin_seen:
        return UNSEEN
    if row.packets_down == 0:
        return REFUSED if state.refused else NO_RESPONSE
    if not state.completed:
        return SERIOUS if state.perhaps_ts == NEVER else UNSEEN
    if state.negotiated:
        return NEGOTIATED
    if state.retried:
        return RETRIED
    if state.repeated:
        return REPEATED
    return UNSEEN if state.unclear else OPTIMAL


@compiled
def set_bursts(connections, packets, order, first, gap_us):
    """Set the bursts, active times and downlink rates of QUIC_CONNECTION[C].

    order, first: see `summaries`. gap_us: int64[U], the silence between two bursts.
    """
    for c in range(len(connections)):
        row = connections[c]
        gap = gap_us[row.user]
        burst_start = last = NEVER
        first_down = last_down = NEVER
        active = rate_us = rate_bytes = np.int64(0)
        for i in order[first[c] : first[c + 1]]:
            ts = packets.ts[i]
            if packets.form[i] == UNREACHABLE:
                continue
            if last == NEVER or ts - last > gap:
                if last != NEVER:
                    active += last - burst_start
                    rate_us += last_down - first_down
                row.bursts += 1
                burst_start, first_down, last_down = ts, NEVER, NEVER
            last = ts
            if packets.downlink[i]:
                if first_down == NEVER:
                    first_down = ts
                else:
                    rate_bytes += packets.ip_len[i]
                last_down = ts
        if last != NEVER:
            active += last - burst_start
            rate_us += last_down - first_down
        row.active = active / 1e6
        is_known = rate_bytes >= MIN_RATE_BYTES and rate_us > 0
        row.downlink_rate = 8e6 * rate_bytes / rate_us if is_known else np.nan
