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
"""Time within which Initials are one flight (µs): a long first message takes several datagrams.

A sender that knows nothing of the path waits a second before it repeats one (RFC 9002, 6.2.2).
"""
SURELY_COMPLETES = 1 << HANDSHAKE | 1 << ONE_RTT
COMPLETES = SURELY_COMPLETES | COALESCED_CUT
"""Coalesced forms that a client sends once it has the server's handshake.

What the capture cut off is among them only in a packet to the server's connection ID.
"""
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
        ("sent", "i8"),
        ("repeated", "?"),
        ("answer_ts", "i8"),
        ("client_dcid", "u4"),
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
repeated: the client repeated its first flight before the server's first packet
client_dcid: destination connection ID of the client's latest Initial before that answer
answer_ts: time of the server's first Initial or Handshake packet (µs)
answered_again: the server sent an Initial again, before the client showed that it had one
client_reached: the client showed that it had it
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
        state.sent_ts = state.answer_ts = NEVER
        state.sent = state.client_dcid = 0
        state.repeated = state.answered_again = state.retried = state.negotiated = False
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
    if state.answer_ts == NEVER:
        row.zero_rtt |= form == ZERO_RTT or packets.coalesced[i] & (1 << ZERO_RTT) != 0
        row.zero_rtt_cut |= packets.coalesced[i] & COALESCED_CUT != 0
        if form == INITIAL:
            state.client_dcid = packets.dcid[i]
            row.initials += row.packets_down == 0
            if state.sent == 0:
                state.sent_ts, state.sent = ts, 1
            elif ts - state.sent_ts > SAME_FLIGHT_US:
                state.sent += 1
                state.repeated |= row.packets_down == 0
        return
    # A client changes the destination connection ID once it has a packet of the server's.
    knows_server = packets.has_dcid[i] and packets.dcid[i] != state.client_dcid
    completes = form == HANDSHAKE or form == ONE_RTT
    if form == INITIAL:
        completes = packets.coalesced[i] & (COMPLETES if knows_server else SURELY_COMPLETES) != 0
    if not state.client_reached and (knows_server or completes):
        state.client_reached = True
        if not state.answered_again:
            row.rtt_access = (ts - state.answer_ts) / 1e6
    if completes and not state.completed:
        state.completed = True
        row.setup_delay = (ts - row.start) / 1e6


@inner
def _follow_server(row, state, packets, i):
    """Update a HANDSHAKE_STATE and its QUIC_CONNECTION with the server's packet i."""
    form, ts = packets.form[i], packets.ts[i]
    if state.sent == 1 and np.isnan(row.rtt_internet):
        row.rtt_internet = (ts - state.sent_ts) / 1e6
    if form == VERSION_NEGOTIATION or form == RETRY:
        state.negotiated |= form == VERSION_NEGOTIATION
        state.retried |= form == RETRY
        state.sent = 0
    elif state.answer_ts == NEVER:
        if form == INITIAL or form == HANDSHAKE:
            state.answer_ts, state.answered_again = ts, form == HANDSHAKE
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
        return SERIOUS
    if state.negotiated:
        return NEGOTIATED
    if state.retried:
        return RETRIED
    return REPEATED if state.repeated else OPTIMAL


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
