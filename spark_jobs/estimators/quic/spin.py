"""Round trips by the spin bit (RFC 9000, 17.4; RFC 9312, 3.8.2; Kunze et al., IMC 2023).

The client sends the opposite of the value that it got last, the server sends what it got last; both
begin with 0. So the value changes once per round trip in each direction:

    uplink   | 0 0 0 0 1 1 1 1 0 0 0 0     an uplink edge to 1, then a downlink edge to 1, then an
    downlink | 1 1 0 0 0 0 1 1 1 1 0 0     uplink edge to 0, ...: a full round trip from one uplink
                                           edge to the next, Internet side and access side

- An end may send a constant, or random values: edges that do not follow each other in this order
  are no signal.
- A packet that comes out of order around an edge makes two edges more. They are closer than two
  edges can be: a value stays for a round trip. So a value that stays for less than a share of the
  handshake's round trips is no edge (MIN_STAY).
- An end that has nothing to send reflects late. The packet before the edge, with the old value,
  shows by how much at most; another limit is what the part of the round trip takes more than the
  shortest one on its side. If the smaller of both is less than a share of the shortest round trip
  (MAX_WAIT), the part is sharp. A limit that grew with the part would prefer long ones.
- A receiver that acknowledges every second packet (RFC 9000, 13.2.2) lets one edge of two wait for
  half the time between its packets, and the other one for none: on average, for a quarter of it. So
  much is taken off each part.
- A round trip counts if its part on the access side is sharp: there are the queue and the retries
  of the radio. In place of a part on the Internet side that is not, its median is taken.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner, making
from spark_jobs.estimators.quic.packets import NO_SPIN, UNREACHABLE

MIN_STAY = 0.5
"""Minimum time for which a value stays, as a share of the handshake's round trips."""
MAX_WAIT = 0.25
"""Maximum wait for the next packet in a sharp part, as a share of the shortest round trip."""
USUAL_WAIT = 0.25
"""Mean wait for the next packet, as a share of the longest possible one."""
MIN_SAMPLES = 5
"""Minimum number of round trips whose quantiles are given.

The true median is below or above all of them in one case of 16; of four, in one of eight.
"""
MAX_SPREAD, DEVIATIONS = 0.5, 1.15
"""Maximum distance, as a share of the median, to the ends of the interval of order statistics that
holds the true median in three cases of four: 1.15 standard deviations of the binomial distribution.

Where the queue fills and empties, a few round trips do not determine the median.
"""
MIN_EDGES = 6
"""Minimum number of edges of a spin bit that says something: random ones have them in order in one
case of 30."""
MIN_IN_ORDER = 0.9
"""Minimum share of the edges that follow the edge before them as they must."""
MIN_DENSE_PACKETS, DENSE_SHARE = 8, 0.3
"""Packets of a direction, and the share of them above which the value changes as random bits do.

One packet per round trip changes it as often.
"""
MAX_CHANGES = 1.25
"""Maximum number of changes per edge of a spin bit that changes so often and says something."""
CONSTANT_RTTS = 4.0
"""Round trips for which a spin bit that never changes must have been seen."""
UNKNOWN, SPINS, CONSTANT, NO_SIGNAL = range(4)
FAR = np.int64(2**62)
"""A time later than any (µs)."""

SPIN = np.dtype(
    [
        ("kind", "i1"),
        ("samples", "i8"),
        ("min", "f8"),
        ("median", "f8"),
        ("p95", "f8"),
        ("access_median", "f8"),
        ("internet_median", "f8"),
    ],
    align=True,
)
"""A connection's spin bit and the round trips that it shows.

kind: UNKNOWN, SPINS, CONSTANT or NO_SIGNAL
samples: number of round trips
min, median, p95: of the round trips (s); NaN if they do not determine the median
access_median, internet_median: of their parts (s)
"""
ROUND_TRIP = np.dtype([("connection", "i8"), ("ts", "i8"), ("rtt", "f8"), ("access", "f8")])
"""A round trip from one uplink edge to the next.

ts: time of its end (µs)
rtt, access: the round trip, and its part on the access side (s)
"""
EDGE = np.dtype(
    [
        ("ts", "i8"),
        ("wait", "i8"),
        ("part", "i8"),
        ("downlink", "?"),
        ("value", "i1"),
        ("sharp", "?"),
    ],
    align=True,
)
"""A change of the spin bit in a direction.

ts: time of the first packet with the new value (µs)
wait: time since the packet before it in this direction (µs)
part: time since the edge that it follows (µs), without the usual wait: its side's part of a round
    trip. 0 if it follows none
sharp: there is a part, in which the wait is short
"""


@compiled
def spin_samples(packets, order, first, base_us, sides_us, begun):
    """Return the kind of each connection's spin bit, int8[C], and ROUND_TRIP[R] by connection.

    order, first: connection c has the QuicPackets order[first[c]:first[c + 1]], by time. base_us:
    float64[C], the round trips of its handshake, or NaN. sides_us: float64[C, 2], their parts on
    the access side and on the Internet side, or NaN. begun: bool[C], its beginning was seen.
    """
    kinds = np.full(len(first) - 1, np.int8(UNKNOWN))
    out = np.zeros(len(order), ROUND_TRIP)
    n = np.int64(0)
    for c in range(len(kinds)):
        if base_us[c] > 0:
            span = order[first[c] : first[c + 1]]
            edges, kinds[c] = _edges_and_kind(packets, span, base_us[c], begun[c])
            if kinds[c] == SPINS:
                _set_parts(edges, sides_us[c, 0], sides_us[c, 1])
                n = _write_round_trips(edges, c, out, n)
    return kinds, out[:n].copy()


@compiled
def spins(kinds, round_trips):
    """Return SPIN[C] of connections; kinds, round_trips: see `spin_samples`."""
    out = np.zeros(len(kinds), SPIN)
    begin = 0
    for c in range(len(out)):
        row, end = out[c], begin
        while end < len(round_trips) and round_trips[end].connection == c:
            end += 1
        row.kind, row.samples = kinds[c], end - begin
        row.min = row.median = row.p95 = row.access_median = row.internet_median = np.nan
        rtt, access = round_trips["rtt"][begin:end], round_trips["access"][begin:end]
        if _determine_median(np.sort(rtt)):
            row.min, row.median, row.p95 = rtt.min(), np.median(rtt), np.quantile(rtt, 0.95)
            row.access_median, row.internet_median = np.median(access), np.median(rtt - access)
        begin = end
    return out


@inner
def _determine_median(values):
    """Return whether sorted values determine their median; see MAX_SPREAD."""
    n = len(values)
    if n < MIN_SAMPLES:
        return False
    rank = int((n + 1 - DEVIATIONS * np.sqrt(n)) / 2)
    median = (values[(n - 1) // 2] + values[n // 2]) / 2
    spread = max(values[n - rank] - median, median - values[rank - 1])
    return spread <= MAX_SPREAD * median


@making
def _edges_and_kind(packets, span, base, begun):
    """Return a connection's edges, EDGE[..], and the kind of its spin bit.

    base: the handshake's round trips (µs).
    """
    edges, changes, is_dense, seen_us = _edges(packets, span, MIN_STAY * base, begun)
    in_order = 0
    for k in range(1, len(edges)):
        in_order += _follows(edges[k], edges[k - 1])
    follow = len(edges) >= MIN_EDGES and in_order >= MIN_IN_ORDER * (len(edges) - 1)
    if follow and (not is_dense or changes <= MAX_CHANGES * len(edges)):
        return edges, np.int8(SPINS)
    if is_dense:
        return edges, np.int8(NO_SIGNAL)
    if changes == 0 and seen_us >= CONSTANT_RTTS * base:
        return edges, np.int8(CONSTANT)
    return edges, np.int8(UNKNOWN)


@inner
def _set_parts(edges, access, internet):
    """Set the parts of the edges, and which are sharp.

    access, internet: the parts of the handshake's round trips (µs), or NaN.
    """
    for k in range(1, len(edges)):
        if _follows(edges[k], edges[k - 1]):
            part = edges[k].part = edges[k].ts - edges[k - 1].ts
            if edges[k].downlink and not internet <= part:
                internet = np.float64(part)
            elif not edges[k].downlink and not access <= part:
                access = np.float64(part)
    for edge in edges:
        shortest = internet if edge.downlink else access
        wait = min(edge.wait, edge.part - shortest)
        edge.sharp = edge.part > 0 and wait <= MAX_WAIT * (access + internet)
        if edge.sharp:
            edge.part -= np.int64(USUAL_WAIT * wait)


@making
def _write_round_trips(edges, c, out, n):
    """Write the round trips of connection c to out[n:] and return the new number of rows."""
    on_internet = edges["part"][edges["sharp"] & edges["downlink"]]
    if len(on_internet) == 0:
        return n
    usual = np.median(on_internet)
    for k in range(1, len(edges)):
        echo, back = edges[k - 1], edges[k]
        if back.sharp and not back.downlink:
            internet = echo.part if echo.sharp else usual
            out[n].connection, out[n].ts = c, back.ts
            out[n].rtt, out[n].access = (internet + back.part) / 1e6, back.part / 1e6
            n += 1
    return n


@inner
def _follows(edge, before):
    """Return whether an EDGE is what follows another one: the server's echo, the client's turn."""
    if edge.downlink == before.downlink:
        return False
    return (edge.value == before.value) == edge.downlink


@making
def _edges(packets, span, min_stay, begun):
    """Return a connection's edges, EDGE[..] by time, and what its spin bit looks like.

    begun: its beginning was seen, so both ends began with 0 before the first packet. A value that
    changes back within min_stay (µs) makes no edge. Also returns the number of all
    changes, whether the value changes about as often as not in a direction, and the time in which
    both directions had short headers (µs).
    """
    edges = np.zeros(len(span), EDGE)
    n, all_changes, is_dense = 0, 0, False
    begin, end = -FAR, FAR
    for way in range(2):
        value, pending = np.int8(0) if begun else NO_SPIN, False
        count = changes = 0
        first_ts = last_ts = FAR
        previous = -FAR
        for i in span:
            if packets.form[i] == UNREACHABLE or packets.downlink[i] != (way == 1):
                continue
            ts = packets.ts[i]
            if packets.spin[i] == NO_SPIN:
                previous = ts
                continue
            first_ts, last_ts = min(first_ts, ts), ts
            if value != NO_SPIN and packets.spin[i] != value:
                changes += count > 0
                if pending and ts - edges[n - 1].ts < min_stay:
                    n -= 1  # it changed back
                    pending = False
                else:
                    edges[n].ts, edges[n].wait = ts, ts - previous
                    edges[n].downlink, edges[n].value = way == 1, packets.spin[i]
                    n += 1
                    pending = True
            value, previous = packets.spin[i], ts
            count += 1
        begin, end = max(begin, first_ts), min(end, last_ts)
        all_changes += changes
        is_dense |= count >= MIN_DENSE_PACKETS and changes > DENSE_SHARE * count
    found = edges[:n]
    return found[np.argsort(found["ts"])], all_changes, is_dense, end - begin
