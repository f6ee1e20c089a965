"""Pages: a user's bursts of connections, and how many of them are in flight at once.

A connection is active from when the mobile asks, by a SYN or by data, or the server sends, until
all is answered and acknowledged. Between two pages a user is idle: no connection is active for
longer than the second after which a new page begins (Smith, Hernández-Campos, Jeffay and Ott,
SIGMETRICS 2001; Barford and Crovella, SIGMETRICS 1998) and two of the user's least round trips
on the access side, in which a name is looked up. A request that stays without an answer for longer than a
person waits (Nielsen, Usability Engineering, 1993: 10 s) waits for news, not for a page.

QUIC's connections are active, too. Their acknowledgements are encrypted: one is active until
nothing passes for as long as a user is idle between two pages.

Pages and what is in flight are told of connections that are mine alone.
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators.connections import hash_server_and_ports
from spark_jobs.estimators.sequence import NONE
from spark_jobs.estimators.tcp import RST, SYN

IDLE_US = 1_000_000
BASE_RTTS = 2
MAX_WAIT_US = 10_000_000
QUIC_PORT = 443
"""UDP's https in IANA's registry of service names and ports."""

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
"""A user's connection, QUIC's numbered after TCP's, is active: from when to when (µs), the IP bytes
sent to the mobile in it, and the bytes of the downlink stream that are new, as far as Gi saw what
followed them (QUIC: 0); how many of the user's were active at once with it, at most, itself
included."""

PAGE = np.dtype(
    [
        ("user", "i8"),
        ("start", "i8"),
        ("end", "i8"),
        ("connections", "i8"),
        ("parallel", "i8"),
        ("ip_bytes", "i8"),
        ("payload_bytes", "i8"),
        ("complete", "?"),
    ]
)
"""A page: whose, from when to when (µs), the connections that had a part in it, the most that were
active at once, what was sent to the mobile (B), as in ACTIVITY, and whether Gi saw all of that."""


@compiled
def activities(segments, connections, base_us):
    """ACTIVITY[A] of Segments and their Connections that are mine, by connection and time; base_us
    float64[U]: each user's least RTT on the access side."""
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
def quic_activities(packets, base_us, count):
    """ACTIVITY[A] of QUIC's connections among all Packets, by user; numbered from `count` on;
    base_us: see `activities`."""
    first, is_tcp, server_port = packets.first, packets.is_tcp, packets.server_port
    ts, server, user_port = packets.ts, packets.server, packets.user_port
    packet_counts = np.zeros(len(first) - 1, np.int64)
    for user in range(len(packet_counts)):
        for i in range(first[user], first[user + 1]):
            packet_counts[user] += not is_tcp[i] and server_port[i] == QUIC_PORT
    out = np.zeros(packet_counts.sum(), ACTIVITY)
    first_packets = np.empty(len(out), np.int64)
    slots = np.zeros(2, np.int64)
    n = np.int64(0)
    for user in range(len(packet_counts)):
        if packet_counts[user] == 0:
            continue
        size = 2
        while size < 2 * packet_counts[user]:
            size *= 2
        if size > len(slots):
            slots = np.zeros(size, np.int64)
        slots[:size] = 0
        gap = _page_gap_us(base_us[user])
        for i in range(first[user], first[user + 1]):
            if is_tcp[i] or server_port[i] != QUIC_PORT:
                continue
            slot = np.int64(hash_server_and_ports(server[i], user_port[i], server_port[i])) & (
                size - 1
            )
            while slots[slot]:
                candidate = first_packets[slots[slot] - 1]
                if server[candidate] == server[i] and user_port[candidate] == user_port[i]:
                    break
                slot = (slot + 1) & (size - 1)
            k = slots[slot] - 1
            if k < 0 or ts[i] - out[k].end > gap:
                _start_activity(out[n], ts[i])
                out[n].user, out[n].connection = user, out[k].connection if k >= 0 else count
                count += k < 0
                first_packets[n] = i
                k = n
                n += 1
                slots[slot] = n
            out[k].end = ts[i]
            if packets.downlink[i]:
                out[k].ip_bytes += packets.ip_len[i]
    return out[:n].copy()


def merge_activities(active, quic):
    """ACTIVITY[A] of both, by user, with how many were active at once."""
    both = np.concatenate([active, quic])
    both = both[np.argsort(both["user"], kind="stable")] if len(quic) else both
    _count_parallel(both)
    return both


@inner
def _page_gap_us(base_us):
    """How long a user is idle between two pages (µs)."""
    return np.int64(IDLE_US + (BASE_RTTS * base_us if base_us > 0 else 0.0))


@inner
def _write_activities(span, segments, gap, out, n):
    """Writes a connection's activity, segments [begin, end), to out[n:]; returns how many there are
    then."""
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
    """Where a user's part of ACTIVITY[A] ends that begins at `begin`."""
    end = begin
    while end < len(active) and active[end].user == active[begin].user:
        end += 1
    return end


@compiled
def _count_parallel(active):
    """Sets how many of a user's are active at once with each.

    Starts and ends are gone through in time. A stack holds the starts after which never so many
    were active as then: the first of them behind an activity's start tells its most.
    """
    begin = 0
    while begin < len(active):
        end = _end_of_user(active, begin)
        activities_of_user = active[begin:end]
        by_start, by_end = (
            np.argsort(activities_of_user["start"]),
            np.argsort(activities_of_user["end"]),
        )
        positions, counts = (
            np.empty(len(activities_of_user), np.int64),
            np.empty(len(activities_of_user), np.int64),
        )
        rank = np.empty(len(activities_of_user), np.int64)
        depth = active_count = started = 0
        for ending in by_end:
            while (
                started < len(activities_of_user)
                and activities_of_user[by_start[started]].start <= activities_of_user[ending].end
            ):
                active_count += 1
                while depth and counts[depth - 1] <= active_count:
                    depth -= 1
                positions[depth], counts[depth] = started, active_count
                rank[by_start[started]] = started
                depth, started = depth + 1, started + 1
            index = np.searchsorted(positions[:depth], rank[ending])
            activities_of_user[ending].parallel = counts[index]
            active_count -= 1
        begin = end


@compiled
def max_parallel(active, count):
    """int64[C]: how many of a user's connections were active at once with each of so many of TCP,
    at most; 0 where it was not active."""
    out = np.zeros(count, np.int64)
    for k in range(len(active)):
        c = active[k].connection
        if c < count:
            out[c] = max(out[c], active[k].parallel)
    return out


@compiled
def pages(active, complete, base_us):
    """PAGE[P] by user and time, of ACTIVITY[A]; complete bool[C]: Gi saw all of a connection of
    TCP; base_us float64[U]: see activities. What sends no data by TCP to the mobile is no page."""
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
            page.connections += page_of_connection[row.connection] != n
            page_of_connection[row.connection] = n
            if row.connection < len(complete):
                page.complete &= complete[row.connection]
            page.parallel = max(page.parallel, row.parallel)
            page.ip_bytes += row.ip_bytes
            page.payload_bytes += row.payload_bytes
        begin = end
    found = out[: n + 1]
    return found[found["payload_bytes"] > 0]
