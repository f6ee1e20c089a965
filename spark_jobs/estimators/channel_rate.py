"""Available downlink channel rate (INFOCOM 2004, Section IV).

The rate at which the access link serves a user is read off the ACKs of one connection while the
link never runs dry: no loss, reordering or resend, and more data in flight than the path holds.
The link keeps a user's packets in order, so between two ACKs it has carried exactly what Gi saw
for the user, of any connection and protocol, after the packet that the first ACK answers, up to
and including the packet that the second answers.

    Gi        | d1 d2 x1 d3 x2 d4          d: this connection, x: the user's other traffic
    ACKs      |       a1       a3   a4     a1 .. a4: bytes x1 + ... of d2, x1, d3, x2, d4

Departures from the paper
- 4500 bytes exceed GPRS's bandwidth-delay product (34 kbit/s x 0.7 s = 3000 bytes) by one half. On
  faster links they do not, so the same is asked of the measured product: the next packet must be
  at Gi half a base round trip before the link would run dry (`queue_margin`). Where it is not, or
  where service stops for more than a base round trip (preemption), the period is cut.
- 16 KB outlast the ACKs' jitter on GPRS: five base round trips at its highest rate. The same is
  asked in time (`min_base_rtts`). As a delayed ACK is late by up to 200 ms, but by no more than the
  wait for the next segment, 20 ACKs or 4 s are asked (`min_ack_delays`); and the ACKs' measured
  lateness may be, on average, no more than 2.5 % of the time (`max_lateness`).
- ACKs are only ever late. The rate is that between two prompt ACKs, corners of the lower convex
  hull of (bytes, time) in the first and the last quarter (Moon, Skelly and Towsley, INFOCOM 1999,
  take clock skew so), not between the first and the last. The paper's is ip_bytes over the time.
- Other traffic's losses falsify the bytes. So a period is also cut where any connection of the
  user has data that Gi sees twice: any copy may have been dropped before the link. Packets that
  were lost and never sent again, and those of other protocols, go unseen.
"""

import numpy as np
from numba import njit

from spark_jobs.estimators.sequence import (
    NONE,
    count_before,
    first_above,
    sequence_length,
)
from spark_jobs.estimators.tcp import RST

LENGTH_CLASSES = 13  # of 128 bytes


@njit(cache=True, nogil=True)
def sent_again(first, downlink, tcp_flags, payload_len, number, to_user, packets):
    """bool[packets], user order: all copies of downlink data that Gi saw more than once before it
    was acknowledged. Which of them got lost is not decided here.

    number is the downlink stream's of `stream_numbers`; to_user int64[N] leads from connection
    order to user order, which holds so many packets.
    """
    again = np.zeros(packets, np.bool_)
    top = np.empty(len(number), np.int64)
    for c in range(len(first) - 1):
        highest = acked = NONE
        for i in range(first[c], first[c + 1]):
            if downlink[i] and number[i] != NONE:
                start = number[i]
                end = start + sequence_length(tcp_flags[i], payload_len[i])
                start = max(start, acked)
                if start < min(end, highest):
                    for j in range(first_above(top, first[c], i, start), i):
                        if not downlink[j] or number[j] == NONE or number[j] >= end:
                            continue
                        if number[j] + sequence_length(tcp_flags[j], payload_len[j]) > start:
                            again[to_user[j]] = again[to_user[i]] = True
                highest = max(highest, end)
            elif number[i] != NONE:
                acked = max(acked, number[i])
            top[i] = highest
    return again


@njit(cache=True, nogil=True)
def clean_acks(first, ts, downlink, tcp_flags, window, payload_len, number, to_user):
    """ACKs from the mobile that tell when a packet had arrived: all before it was sent once, in
    order, and answered without duplicate ACKs.

    A disturbance (a resend, a hole, data that overtook, a duplicate ACK, an ACK of data that Gi
    never saw, a closed window, a reset) ends once all sent until then is acknowledged.

    Returns, one item an ACK: connection int64, ts int64 (us), packet int64 (user order: the last
    one that it acknowledges in full), flight int64 (bytes still in flight after it), joined bool
    (nothing disturbed the connection since its previous item).
    """
    n = len(ts) - np.count_nonzero(downlink)
    connection = np.empty(n, np.int64)
    at = np.empty(n, np.int64)
    packet = np.empty(n, np.int64)
    flight = np.empty(n, np.int64)
    joined = np.empty(n, np.bool_)
    top = np.empty(len(ts), np.int64)
    items = 0
    for c in range(len(first) - 1):
        highest = acked = recover = NONE
        last_window = -1
        join = False
        reached = first[c]  # packets before it are acknowledged in full
        answered = -1  # the last of them that carried new data, and
        told = NONE  # where that data ends
        for i in range(first[c], first[c + 1]):
            if tcp_flags[i] & RST:
                recover = highest
                join = False
            elif downlink[i]:
                start = number[i]
                end = start + sequence_length(tcp_flags[i], payload_len[i])
                if highest == NONE:
                    highest = acked = recover = start
                if end > start and start != highest:
                    recover = max(highest, end)
                    join = False
                highest = max(highest, end)
            elif number[i] != NONE:
                ack = number[i]
                if highest == NONE:
                    highest = acked = recover = ack
                if ack > highest:
                    highest = acked = recover = ack
                    join = False
                elif window[i] == 0:
                    acked = max(acked, ack)
                    recover = highest
                    join = False
                elif ack == acked:
                    if ack < highest and payload_len[i] == 0 and window[i] == last_window:
                        recover = highest
                        join = False
                elif ack > acked:
                    while reached < i and top[reached] <= ack:
                        if downlink[reached] and top[reached] > told:
                            answered = reached
                            told = top[reached]
                        reached += 1
                    if acked < recover:
                        join = False
                    elif told > acked:
                        connection[items] = c
                        at[items] = ts[i]
                        packet[items] = to_user[answered]
                        flight[items] = highest - ack
                        joined[items] = join
                        items += 1
                        join = True
                    acked = ack
                last_window = window[i]
            top[i] = highest
    return connection[:items], at[:items], packet[:items], flight[:items], joined[:items]


@njit(cache=True, nogil=True)
def least_rtts(users, user, considered, connection, at, packet, user_ts, user_ip_len):
    """float64[users, LENGTH_CLASSES, 2]: for each user and class of packet length the least round
    trip from Gi to the mobile and back (us), and the packet's length (bytes)."""
    least = np.full((users, LENGTH_CLASSES, 2), np.inf)
    for k in range(len(at)):
        if not considered[connection[k]]:
            continue
        length = np.int64(user_ip_len[packet[k]])
        kind = min(length >> 7, np.int64(LENGTH_CLASSES - 1))
        best = least[user[connection[k]], kind]
        rtt = at[k] - user_ts[packet[k]]
        if rtt < best[0]:
            best[0] = rtt
            best[1] = length
    return least


@njit(cache=True, nogil=True)
def base_rtt(least, us_per_byte):
    """Round trip (us) of an empty packet on an idle link that serves a byte in us_per_byte."""
    base = np.inf
    for k in range(len(least)):
        if least[k, 0] < np.inf:
            base = min(base, least[k, 0] - least[k, 1] * us_per_byte)
    return max(base, 0.0)


@njit(cache=True, nogil=True)
def prompt_us_per_byte(ts, sent):
    """The link's time a byte, between two ACKs that came promptly (see the module's text).

    ts, sent int64[K]: when each ACK of a period came (us) and the bytes sent up to the packet
    that it answers. NaN if they do not tell.
    """
    corner = np.empty(len(ts), np.int64)
    m = 0
    for k in range(len(ts)):
        if m and sent[k] == sent[corner[m - 1]]:
            continue
        while m >= 2:
            a, b = corner[m - 2], corner[m - 1]
            if float(ts[b] - ts[a]) * float(sent[k] - sent[a]) < float(ts[k] - ts[a]) * float(
                sent[b] - sent[a]
            ):
                break
            m -= 1
        corner[m] = k
        m += 1
    quarter = (sent[-1] - sent[0]) / 4
    lo, hi = 0, m - 1
    while lo < m - 1 and sent[corner[lo + 1]] <= sent[0] + quarter:
        lo += 1
    while hi > 0 and sent[corner[hi - 1]] >= sent[-1] - quarter:
        hi -= 1
    time = ts[corner[hi]] - ts[corner[lo]]
    return time / (sent[corner[hi]] - sent[corner[lo]]) if hi > lo and time > 0 else np.nan


@njit(cache=True, nogil=True)
def mean_lateness(ts, sent, us_per_byte):
    """How late (us) the ACKs of a period are, on average, behind its most prompt one."""
    total = 0.0
    least = np.inf
    for k in range(len(ts)):
        late = (ts[k] - ts[0]) - (sent[k] - sent[0]) * us_per_byte
        total += late
        least = min(least, late)
    return total / len(ts) - least


@njit(cache=True, nogil=True)
def kept_busy(at, packet, k, us_per_byte, base, queue_margin, user_ts, user_downlink, sent_before):
    """Whether the link had a packet to send at all times from the packet that ACK k answers to
    the one that ACK k + 1 answers, with queue_margin base round trips to spare."""
    served = sent_before[packet[k + 1] + 1] - sent_before[packet[k] + 1]
    if at[k + 1] - at[k] > base + served * us_per_byte:
        return False
    # the link has sent all up to byte b by this time plus b * us_per_byte, or sooner
    empty_at = at[k] - base * (1 + queue_margin) - sent_before[packet[k] + 1] * us_per_byte
    for j in range(packet[k] + 1, packet[k + 1] + 1):
        if user_downlink[j] and user_ts[j] > empty_at + sent_before[j] * us_per_byte:
            return False
    return True


@njit(cache=True, nogil=True)
def undisturbed_until(lo, joined, flight, packet, resent_before, flight_size_bytes):
    """The last ACK of the run that begins with ACK lo: no disturbance, enough data in flight, and
    nothing sent to the user that was sent again later (resent_before: a prefix count)."""
    hi = lo
    while (
        hi + 1 < len(joined)
        and joined[hi + 1]
        and flight[hi] > flight_size_bytes
        and resent_before[packet[hi + 1] + 1] == resent_before[packet[hi] + 1]
    ):
        hi += 1
    return hi


@njit(cache=True, nogil=True)
def channel_rates(
    first,
    ts,
    downlink,
    tcp_flags,
    payload_len,
    number,
    clean,
    user,
    considered,
    to_user,
    user_first,
    user_ts,
    user_downlink,
    user_ip_len,
    sent_before,
    flight_size_bytes=4500,
    min_period_bytes=16 * 1024,
    queue_margin=0.5,
    min_base_rtts=5,
    min_ack_delays=20,
    ack_delay_us=200_000,
    max_lateness=0.025,
):
    """The periods in which a connection kept its user's link saturated, and the link's rate.

    Connection order (N packets, C connections): first int64[C + 1], ts int64 (us), downlink bool,
    tcp_flags uint16, payload_len uint32, number int64 (the downlink stream's of
    `stream_numbers`), clean (what `clean_acks` returns of them), to_user int64 (the packet's place
    in user order). user int64[C]; considered bool[C]: the connections to measure (the resends of
    others still cut periods).
    User order (M >= N packets of any protocol, U users): user_first int64[U + 1], user_ts int64,
    user_downlink bool, user_ip_len uint32, sent_before int64[M + 1] (see `downlink_bytes_before`).

    Returns, one item a period: connection int64, start_ts and end_ts int64 (us, its first and
    last ACK), ip_bytes int64, rate float64 (bit/s, IP layer).
    """
    connection, at, packet, flight, joined = clean
    least = least_rtts(
        len(user_first) - 1, user, considered, connection, at, packet, user_ts, user_ip_len
    )
    resent = sent_again(first, downlink, tcp_flags, payload_len, number, to_user, len(user_ts))
    resent_before = count_before(resent)
    sent = sent_before[packet + 1]  # up to and including the packet that each ACK answers

    found = np.empty((len(at), 2), np.int64)
    rate = np.empty(len(at), np.float64)
    periods = 0
    next_run = 0
    while next_run < len(at):
        start = next_run
        end = undisturbed_until(start, joined, flight, packet, resent_before, flight_size_bytes)
        next_run = end + 1
        if not considered[connection[start]] or sent[end] - sent[start] < min_period_bytes:
            continue
        pace = prompt_us_per_byte(at[start : end + 1], sent[start : end + 1])
        base = base_rtt(least[user[connection[start]]], pace)
        for k in range(start, end + 1):
            if k < end and kept_busy(
                at, packet, k, pace, base, queue_margin, user_ts, user_downlink, sent_before
            ):
                continue
            time = at[k] - at[start]
            if (
                sent[k] - sent[start] >= min_period_bytes
                and time >= min_base_rtts * base
                and (k - start >= min_ack_delays or time >= min_ack_delays * ack_delay_us)
            ):
                us_per_byte = prompt_us_per_byte(at[start : k + 1], sent[start : k + 1])
                late = mean_lateness(at[start : k + 1], sent[start : k + 1], us_per_byte)
                if us_per_byte > 0 and late <= max_lateness * time:
                    found[periods] = start, k
                    rate[periods] = 8e6 / us_per_byte
                    periods += 1
            start = k + 1
    from_ack, to_ack = found[:periods, 0], found[:periods, 1]
    return (
        connection[from_ack],
        at[from_ack],
        at[to_ack],
        sent[to_ack] - sent[from_ack],
        rate[:periods].copy(),
    )
