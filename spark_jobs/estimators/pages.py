"""Pages: a user's bursts of connections, and the number of them that are active in parallel.

A connection becomes active when the mobile sends a SYN or data, or when the server sends. It stays
active until everything is answered and acknowledged. Between two pages a user is idle: no
connection is active for longer than a limit. The limit is the second after which a new page begins
(Smith, Hernández-Campos, Jeffay and Ott, SIGMETRICS 2001; Barford and Crovella, SIGMETRICS 1998),
plus two of the user's base RTTs on the access side, in which a name is looked up. A request that
stays unanswered for longer than a person waits (Nielsen, Usability Engineering, 1993: 10 s) waits
for news, not for a page.

QUIC's connections are active, too. Their acknowledgments are encrypted. So such a connection is
active until no packet passes for as long as a user is idle between two pages.

Pages and parallel connections are reported only of connections that start in the time window.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators.quic.packets import UNREACHABLE
from spark_jobs.estimators.sequence import NONE
from spark_jobs.estimators.tcp import RST, SYN

IDLE_US = 1_000_000
"""Minimum idle time between two pages, without the name lookup."""
BASE_RTTS = 2
"""Base RTTs that a name lookup takes."""
MAX_WAIT_US = 10_000_000
"""Maximum time for which a request without an answer keeps its connection active."""

ACTIVITY = np.dtype(
    [
        ("user", "i8"),
        ("connection", "i8"),
        ("start", "i8"),
        ("end", "i8"),
        ("ip_bytes", "i8"),
        ("payload_bytes", "i8"),
        ("parallel", "i8"),
    ]
)
"""A time in which a user's connection is active.

user: number of the user
connection: number of the connection; QUIC's are numbered after TCP's
start, end: time (µs)
ip_bytes: IP bytes sent to the mobile in the connection (B)
payload_bytes: new bytes of the downlink stream, as far as Gi saw what followed them (B; QUIC: 0)
parallel: maximum number of the user's connections that were active at the same time, with it
"""

PAGE = np.dtype(
    [
        ("user", "i8"),
        ("start", "i8"),
        ("end", "i8"),
        ("connections", "i8"),
        ("quic_connections", "i8"),
        ("parallel", "i8"),
        ("ip_bytes", "i8"),
        ("quic_bytes", "i8"),
        ("payload_bytes", "i8"),
        ("complete", "?"),
    ]
)
"""A page.

user: number of the user
start, end: time (µs)
connections, quic_connections: numbers of connections with a part in the page, and of QUIC's
parallel: maximum number of connections that were active at the same time
ip_bytes, payload_bytes: bytes sent to the mobile (B), as in ACTIVITY; quic_bytes: QUIC's of them
complete: Gi saw all of it
"""


@compiled
def activities(segments, connections, base_us):
    """Return ACTIVITY[A] of Segments and the Connections that start in the time window.

    It is sorted by connection and time. base_us: float64[U], each user's base RTT on the access
    side.
    """
    first = connections.first
    out = np.empty(len(segments.ts), ACTIVITY)
    n = np.int64(0)
    for c in range(len(first) - 1):
        if connections.starts_in_window[c]:
            gap, written = _page_gap_us(base_us[connections.user[c]]), n
            n = _write_activities((first[c], first[c + 1]), segments, gap, out, n)
            for k in range(written, n):
                out[k].user, out[k].connection = connections.user[c], c
    return out[:n].copy()


@compiled
def quic_activities(packets, order, first, gap_us, count):
    """Return ACTIVITY[A] of QUIC's connections, by user.

    packets: QuicPackets, of which connection c has order[first[c]:first[c + 1]], by time. gap_us:
    see `page_gaps_us`. Connections are numbered from `count` on.
    """
    out = np.zeros(len(order), ACTIVITY)
    n = np.int64(0)
    for c in range(len(first) - 1):
        begun = False
        for k in range(first[c], first[c + 1]):
            i = order[k]
            if packets.form[i] == UNREACHABLE:
                continue
            user, ts = packets.user[i], packets.ts[i]
            if not begun or ts - out[n - 1].end > gap_us[user]:
                begun = True
                _start_activity(out[n], ts)
                out[n].user, out[n].connection = user, count + c
                n += 1
            out[n - 1].end = ts
            if packets.downlink[i]:
                out[n - 1].ip_bytes += packets.ip_len[i]
    return out[:n].copy()


def merge_activities(active, quic):
    """Return ACTIVITY[A] of TCP and QUIC, by user, with the numbers of parallel connections."""
    both = np.concatenate([active, quic])
    both = both[np.argsort(both["user"], kind="stable")] if len(quic) else both
    _count_parallel(both)
    return both


@compiled
def page_gaps_us(base_us):
    """Return int64[U]: how long each user is idle between two pages (µs); base_us: base RTTs."""
    out = np.empty(len(base_us), np.int64)
    for user in range(len(out)):
        out[user] = _page_gap_us(base_us[user])
    return out


@inner
def _page_gap_us(base_us):
    """Return how long a user is idle between two pages (µs)."""
    return np.int64(IDLE_US + (BASE_RTTS * base_us if base_us > 0 else 0.0))


@inner
def _write_activities(span, segments, gap, out, n):
    """Write a connection's activities to out[n:] and return the new number of rows.

    span: the connection's segments, [begin, end).
    """
    number, downlink, ts = segments.number, segments.downlink, segments.ts
    flags, payload_len, ip_len = segments.tcp_flags, segments.payload_len, segments.ip_len
    probe = segments.probe
    highest = acked = NONE
    awaits_answer = has_activity = False
    for i in range(span[0], span[1]):
        if flags[i] & RST or probe[i] or (downlink[i] and number[i] == NONE):
            continue
        syn, size = flags[i] & SYN != 0, np.int64(payload_len[i])
        is_active = size > 0 or syn
        acks_new_data = not downlink[i] and acked < highest and number[i] > acked
        if not (is_active or (acks_new_data and has_activity)):
            continue
        if is_active:
            silence = ts[i] - out[n - 1].end if has_activity else np.int64(0)
            is_over = silence > MAX_WAIT_US if awaits_answer else silence > gap and acked >= highest
            if not has_activity or is_over:
                _start_activity(out[n], ts[i])
                has_activity = True
                n += 1
        row = out[n - 1]
        row.end = ts[i]
        if not downlink[i]:
            awaits_answer = bool(awaits_answer or is_active)
            acked = max(acked, number[i])
            continue
        awaits_answer = False
        row.ip_bytes += ip_len[i]
        high = number[i] + size + syn
        if highest == NONE or high > highest:
            row.payload_bytes += high - max(highest, number[i] + syn)
            highest = high
    return n


@inner
def _start_activity(row, now):
    row.start = row.end = now
    row.ip_bytes = row.payload_bytes = row.parallel = 0


@inner
def _end_of_user(active, begin):
    """Return the end of a user's part of ACTIVITY[A] that begins at `begin`."""
    end = begin
    while end < len(active) and active[end].user == active[begin].user:
        end += 1
    return end


@compiled
def _count_parallel(active):
    """Set the number of parallel connections in ACTIVITY[A].

    Starts and ends are processed in order of time. A stack holds the starts after which never as
    many connections were active as at that start. The first of them after an activity's start has
    its maximum.
    """
    begin = 0
    while begin < len(active):
        end = _end_of_user(active, begin)
        rows = active[begin:end]
        by_start, by_end = (
            np.argsort(rows["start"]),
            np.argsort(rows["end"]),
        )
        positions, counts = (
            np.empty(len(rows), np.int64),
            np.empty(len(rows), np.int64),
        )
        rank = np.empty(len(rows), np.int64)
        depth = active_count = started = 0
        for ending in by_end:
            while started < len(rows) and rows[by_start[started]].start <= rows[ending].end:
                active_count += 1
                while depth and counts[depth - 1] <= active_count:
                    depth -= 1
                positions[depth], counts[depth] = started, active_count
                rank[by_start[started]] = started
                depth, started = depth + 1, started + 1
            index = np.searchsorted(positions[:depth], rank[ending])
            rows[ending].parallel = counts[index]
            active_count -= 1
        begin = end


@compiled
def max_parallel(active, count):
    """Return int64[C]: maximum number of a user's connections that were active with each of TCP's.

    count: C. The value is 0 for a connection that was not active.
    """
    out = np.zeros(count, np.int64)
    for k in range(len(active)):
        c = active[k].connection
        if c < count:
            out[c] = max(out[c], active[k].parallel)
    return out


@compiled
def pages(active, complete, base_us):
    """Return PAGE[P] by user and time, of ACTIVITY[A].

    complete: bool[C], Gi saw all of a connection of TCP. base_us: float64[U], see `activities`.
    Activities without data to the mobile are no page.
    """
    out = np.zeros(len(active), PAGE)
    connection_count = len(complete)
    for k in range(len(active)):
        connection_count = max(connection_count, active[k].connection + 1)
    page_of_connection = np.full(connection_count, np.int64(-1))
    n = np.int64(-1)
    begin = 0
    while begin < len(active):
        end = _end_of_user(active, begin)
        user = active[begin].user
        for k in begin + np.argsort(active["start"][begin:end]):
            row = active[k]
            if n < 0 or out[n].user != user or row.start - out[n].end > _page_gap_us(base_us[user]):
                n += 1
                out[n].user, out[n].start, out[n].end = user, row.start, row.end
                out[n].complete = True
            page = out[n]
            page.end = max(page.end, row.end)
            is_new = page_of_connection[row.connection] != n
            page.connections += is_new
            page_of_connection[row.connection] = n
            if row.connection < len(complete):
                page.complete &= complete[row.connection]
            else:
                page.quic_connections += is_new
                page.quic_bytes += row.ip_bytes
            page.parallel = max(page.parallel, row.parallel)
            page.ip_bytes += row.ip_bytes
            page.payload_bytes += row.payload_bytes
        begin = end
    found = out[: n + 1]
    return found[found["payload_bytes"] + found["quic_bytes"] > 0]
