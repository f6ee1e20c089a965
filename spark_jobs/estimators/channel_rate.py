"""Available downlink channel rate (INFOCOM 2004, Section IV).

The ACKs of one connection show the rate at which the access link serves a user, as long as the link
is never idle: no loss, reordering or retransmission, and more data in flight than the path holds.
The link keeps a user's packets in order. So between two ACKs it carried exactly the user's packets,
of any connection and protocol, that passed Gi after the packet that the first ACK answers, up to
and including the packet that the second ACK answers.

    Gi        | d1 d2 x1 d3 x2 d4          d: this connection, x: the user's other traffic
    ACKs      |       a1       a3   a4     a1 .. a4: bytes x1 + ... of d2, x1, d3, x2, d4

Departures from the paper

- 4500 bytes exceed GPRS's bandwidth-delay product (34 kbit/s x 0.7 s = 3000 bytes) by one half. On
  faster links they do not. So a packet must always wait at the link: the next one must be at Gi
  before the link would be idle, with a margin. A queue that drops early (CoDel, PIE, RED) holds a
  few milliseconds only, so the margin is as large as the ACKs are late, not a share of the RTT:
  four times their mean lateness, but never less than the time that the link needs for one packet,
  and not more than half a base RTT if that is more than the mean lateness (`queue_margin`). If
  service stops for more than a base RTT (preemption), the period is cut.
- The part of a window's RTT that is not spent in the queue may hide a late ACK. A window of about
  one bandwidth-delay product is answered late and sent late, round after round, and every ACK looks
  as if its packet had been queued. So lateness counts from the period's most prompt ACK
  (`most_prompt_ack`), and the margin from that ACK, too (`mark_idle`).
- Too short a base RTT hides an idle link as well, and a single packet with a late timestamp makes
  one. So the base RTT is the shortest that two of the user's connections had.
- 16 KB outlast the ACKs' jitter on GPRS: five base RTTs at its highest rate. On all links the ACKs'
  measured lateness may be, on average, at most 2.5 % of the time (`max_lateness`), and the period
  lasts a base RTT (`min_base_rtts`). A delayed ACK is late by up to 200 ms, but by no more than the
  wait for the next segment. So 20 ACKs or 4 s are required (`min_ack_delays`).
- ACKs can only be late, never early. The rate is that between two prompt ACKs, not between the
  first and the last. These two are corners of the lower convex hull of (bytes, time) in the first
  and the last quarter (Moon, Skelly and Towsley, INFOCOM 1999, remove clock skew in this way). The
  paper's rate is ip_bytes divided by the time.
- A link with a queue for each connection does not keep the order of a user's packets. There a
  period is cut where the user's other packets may have been in their queues (`queue_kind`).
- Losses of the user's other traffic falsify the bytes. So a period is also cut where any connection
  of the user has data that Gi sees twice: any transmission of it may have been dropped before the
  link. Lost packets that were never retransmitted, and lost packets of other protocols, are not
  detected.
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.compiled import compiled, inner, making
from spark_jobs.estimators.sequence import (
    MAX_WORK,
    NONE,
    count_before,
    first_above,
    search_begin,
    sequence_length,
)

LENGTH_CLASSES = 13
"""Number of classes of packet length, of 128 bytes each."""


class Saturation(NamedTuple):
    """Requirements for a period in which a link is kept saturated."""

    flight_size_bytes: int = 4500
    """More data than this is in flight (Section IV)."""
    min_period_bytes: int = 16 * 1024
    """Minimum of acknowledged bytes (Section IV)."""
    min_base_rtts: float = 1
    """Minimum duration in base RTTs."""
    min_ack_delays: int = 20
    """Minimum number of ACKs; instead the period may last for as many times ack_delay_us."""
    ack_delay_us: int = 200_000
    """Maximum delay of a delayed ACK (µs)."""
    queue_margin: float = 0.5
    """Upper limit of lateness_margin, in base RTTs."""
    lateness_margin: float = 4
    """Time by which a packet must be at Gi before the link is idle (multiple of mean lateness)."""
    max_lateness: float = 0.025
    """Maximum mean lateness of the ACKs, as a share of the time."""


class Periods(NamedTuple):
    """Periods in which a connection kept its user's link saturated."""

    connection: np.ndarray
    """int64[K]."""
    start_ts: np.ndarray
    """int64[K], µs: time of the period's first ACK."""
    end_ts: np.ndarray
    """int64[K], µs: time of the period's last ACK."""
    ip_bytes: np.ndarray
    """int64[K], B: bytes that the link carried."""
    rate: np.ndarray
    """float64[K]: the link's rate (bit/s, IP layer)."""


@making
def retransmitted_packets(segments, connections, packet_count):
    """Return bool[packet_count], user order: packets with downlink data that Gi saw more than once.

    Only data that Gi saw again before it was acknowledged counts. All transmissions of it are
    marked; which of them got lost is not decided here. packet_count: number of packets in user
    order.
    """
    first, number, downlink = connections.first, segments.number, segments.downlink
    tcp_flags, payload_len, place = segments.tcp_flags, segments.payload_len, segments.place
    retransmitted = np.zeros(packet_count, np.bool_)
    highest_so_far = np.empty(len(number), np.int64)
    for c in range(len(first) - 1):
        highest = acked = NONE
        steps_left = MAX_WORK * (first[c + 1] - first[c])
        for i in range(first[c], first[c + 1]):
            if downlink[i] and number[i] != NONE:
                start = number[i]
                end = start + sequence_length(tcp_flags[i], payload_len[i])
                start = max(start, acked)
                if start < min(end, highest):
                    j = first_above(highest_so_far, first[c], i, start)
                    begin = search_begin(j, i, steps_left)
                    steps_left -= i - begin
                    while j < i:  # the first transmission of `start`, and those from `begin` on
                        if downlink[j] and number[j] != NONE and number[j] < end:
                            if number[j] + sequence_length(tcp_flags[j], payload_len[j]) > start:
                                retransmitted[place[j]] = retransmitted[place[i]] = True
                        j = max(j + 1, begin)
                highest = max(highest, end)
            elif number[i] != NONE:
                acked = max(acked, number[i])
            highest_so_far[i] = highest
    return retransmitted


@making
def min_rtts(clean, connections, packets):
    """Return the two smallest RTTs by user and packet length: float64[U, LENGTH_CLASSES, 2, 3].

    The RTTs are from Gi to the mobile and back, of two different connections that start in the
    window. The last axis has the RTT (µs), the packet's length (B) and the connection.
    """
    found = np.full((len(packets.first) - 1, LENGTH_CLASSES, 2, 3), np.inf)
    for k in range(len(clean.ts)):
        c, packet = clean.connection[k], clean.packet[k]
        if not connections.starts_in_window[c]:
            continue
        length = np.int64(packets.ip_len[packet])
        length_class = min(length >> 7, np.int64(LENGTH_CLASSES - 1))
        best = found[connections.user[c], length_class]
        rtt = clean.ts[k] - packets.ts[packet]
        rank = 0 if rtt < best[0, 0] or c == best[0, 2] else 1
        if rtt < best[rank, 0]:
            if rank == 0 and c != best[0, 2]:
                best[1] = best[0]
            best[rank, 0] = rtt
            best[rank, 1] = length
            best[rank, 2] = c
    return found


@inner
def base_rtt(rtts, us_per_byte):
    """Return the RTT (µs) of an empty packet on an idle link that serves a byte in us_per_byte.

    It is the smallest RTT that two connections had, or that of the only connection.
    """
    base = confirmed = np.inf
    connection = -1.0
    for length_class in range(len(rtts)):
        for rank in range(2):
            if rtts[length_class, rank, 0] == np.inf:
                continue
            rtt = rtts[length_class, rank, 0] - rtts[length_class, rank, 1] * us_per_byte
            if rtts[length_class, rank, 2] == connection:
                base = min(base, rtt)
            elif rtt < base:
                confirmed = base
                base = rtt
                connection = rtts[length_class, rank, 2]
            else:
                confirmed = min(confirmed, rtt)
    return max(confirmed if confirmed < np.inf else base, 0.0)


@making
def prompt_us_per_byte(ts, sent):
    """Return the link's time per byte (µs), between two prompt ACKs (see the module's text).

    ts, sent: int64[K], time of each ACK of a period (µs), and bytes sent up to and including the
    packet that it answers. NaN if they do not show it.
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


@inner
def most_prompt_ack(ts, sent, us_per_byte):
    """Return (time at which the ACK of byte 0 would come, mean lateness of a period's ACKs), µs.

    The ACK of byte 0 is taken to be as prompt as the period's most prompt ACK. The lateness is
    relative to that ACK.
    """
    total = 0.0
    min_lateness = np.inf
    for k in range(len(ts)):
        lateness = (ts[k] - ts[0]) - (sent[k] - sent[0]) * us_per_byte
        total += lateness
        min_lateness = min(min_lateness, lateness)
    return ts[0] - sent[0] * us_per_byte + min_lateness, total / len(ts) - min_lateness


@inner
def is_busy(clean, k, us_per_byte, base, packets):
    """Return whether the link may always have had a packet between the packets of ACKs k and k + 1.

    This covers the time from the packet that ACK k answers to the packet that ACK k + 1 answers.
    """
    ack_ts, bytes_before = clean.ts[k], packets.downlink_bytes_before
    answered, next_answered = clean.packet[k], clean.packet[k + 1]
    served = bytes_before[next_answered + 1] - bytes_before[answered + 1]
    if clean.ts[k + 1] - ack_ts > base + served * us_per_byte:
        return False
    # The link has sent all data up to byte b by this time plus b * us_per_byte, or sooner.
    idle_at = ack_ts - base - bytes_before[answered + 1] * us_per_byte
    for j in range(answered + 1, next_answered + 1):
        if packets.downlink[j] and packets.ts[j] > idle_at + bytes_before[j] * us_per_byte:
            return False
    return True


@inner
def mark_idle(idle, answered, deadline, us_per_byte, packets):
    """Mark the ACKs after which the link may have been idle and return whether there are any.

    idle: bool[K - 1], set to True for these of K ACKs. answered: the packets that the ACKs answer.
    deadline: latest time (µs) at which a packet with no byte ahead of it must be at Gi; for every
    byte ahead of it, it may come us_per_byte later.
    """
    ts, downlink, bytes_before = packets.ts, packets.downlink, packets.downlink_bytes_before
    any_idle = False
    for k in range(len(idle)):
        for j in range(answered[k] + 1, answered[k + 1] + 1):
            if downlink[j] and ts[j] > deadline + bytes_before[j] * us_per_byte:
                idle[k] = any_idle = True
    return any_idle


@inner
def last_undisturbed(first, clean, retransmitted_before, flight_size_bytes):
    """Return the last ACK of the run that begins with ACK `first`.

    In a run there is no disturbance, enough data is in flight, and no packet to the user was
    retransmitted later. retransmitted_before: a prefix count.
    """
    packet = clean.packet
    last = first
    while (
        last + 1 < len(clean.ts)
        and clean.undisturbed[last + 1]
        and clean.flight[last] > flight_size_bytes
        and retransmitted_before[packet[last + 1] + 1] == retransmitted_before[packet[last] + 1]
    ):
        last += 1
    return last


@compiled
def channel_rates(segments, connections, packets, clean, saturation):
    """Return the Periods of the connections that start in the time window.

    clean: the CleanAcks, disturbed where the user's packets do not keep their order (see
    `queue_kind.in_order`). Retransmissions of the user's other connections still cut periods.
    """
    ack_ts, packet = clean.ts, clean.packet
    user_min_rtts = min_rtts(clean, connections, packets)
    retransmitted_before = count_before(
        retransmitted_packets(segments, connections, len(packets.ts))
    )
    sent = packets.downlink_bytes_before[packet + 1]  # up to the packet that each ACK answers

    spans = np.empty((len(ack_ts), 2), np.int64)
    rate = np.empty(len(ack_ts), np.float64)
    idle = np.empty(len(ack_ts), np.bool_)
    periods = 0
    next_run = 0
    while next_run < len(ack_ts):
        start = next_run
        end = last_undisturbed(start, clean, retransmitted_before, saturation.flight_size_bytes)
        next_run = end + 1
        c = clean.connection[start]
        if (
            not connections.starts_in_window[c]
            or sent[end] - sent[start] < saturation.min_period_bytes
        ):
            continue
        pace = prompt_us_per_byte(ack_ts[start : end + 1], sent[start : end + 1])
        base = base_rtt(user_min_rtts[connections.user[c]], pace)
        for k in range(start, end):
            idle[k] = not is_busy(clean, k, pace, base, packets)
        idle[end] = True
        while start <= end:
            k = start
            while not idle[k]:
                k += 1
            if _is_long_enough(
                ack_ts[k] - ack_ts[start], sent[k] - sent[start], k - start, base, saturation
            ):
                us_per_byte = prompt_us_per_byte(ack_ts[start : k + 1], sent[start : k + 1])
                prompt_ts, lateness = most_prompt_ack(
                    ack_ts[start : k + 1], sent[start : k + 1], us_per_byte
                )
                margin = max(
                    lateness,
                    _packet_time(clean, start, us_per_byte, packets),
                    min(saturation.queue_margin * base, saturation.lateness_margin * lateness),
                )
                deadline = prompt_ts - base - margin
                answered = packet[start : k + 1]
                if mark_idle(idle[start:k], answered, deadline, us_per_byte, packets):
                    continue  # with the rest of the period
                if us_per_byte > 0 and lateness <= saturation.max_lateness * (
                    ack_ts[k] - ack_ts[start]
                ):
                    spans[periods] = start, k
                    rate[periods] = 8e6 / us_per_byte
                    periods += 1
            start = k + 1
    from_ack, to_ack = spans[:periods, 0], spans[:periods, 1]
    return Periods(
        clean.connection[from_ack],
        ack_ts[from_ack],
        ack_ts[to_ack],
        sent[to_ack] - sent[from_ack],
        rate[:periods].copy(),
    )


@inner
def _packet_time(clean, k, us_per_byte, packets):
    """Return the time (µs) in which the link sends the packet that ACK k answers."""
    return packets.ip_len[clean.packet[k]] * us_per_byte


@inner
def _is_long_enough(time, ip_bytes, acks, base, saturation):
    """Return whether a period of this time (µs), bytes and ACKs outlasts the ACKs' jitter."""
    if ip_bytes < saturation.min_period_bytes or time < saturation.min_base_rtts * base:
        return False
    min_acks = saturation.min_ack_delays
    return acks >= min_acks or time >= min_acks * saturation.ack_delay_us
