"""Delay spikes: RTTs on the access side that are of a sudden far above the running mean.

A handover, a cell reselection or a preemption holds up what is in flight to a user (Gurtov and
Ludwig, INFOCOM 2003; RFC 3481, 2.2). So a round trip of SPIKE times the running mean or more is
one, if it is DEVIATIONS mean deviations above it, too (both taken as RFC 6298 does), and neither
the user's own data in flight explains it, which wait for each other at the link's pace, nor a
delayed ACK. One spike lasts until a round trip is below that again. Only clean ACKs count: of a
spike that sets off the server's timer, its spurious timeout tells (`sender`).
"""

import numpy as np

from spark_jobs.compiled import compiled, inner

MIN_RATIO, MIN_DEVIATIONS = 2, 4
MAX_ACK_DELAY_US = 500_000
"""An ACK may wait so long for a second packet (RFC 9293, 3.8.6.3)."""

RUNNING_MEANS = np.dtype([("rtt", "f8"), ("deviation", "f8"), ("flight", "f8"), ("in_spike", "?")])
"""A user's running mean of round trips (µs), their mean deviation, the mean of the bytes in flight;
whether the last was a spike's."""


@compiled
def delay_spikes(clean, connections, packets, pace):
    """int64[C]: in how many spikes each connection was the first, of CleanAcks of Connections that
    are mine and all Packets; pace float64[U]: of users' links, µs a byte, 0: not known."""
    out = np.zeros(len(connections.user), np.int64)
    ack_of_packet = np.full(len(packets.ts), np.int32(-1))
    for k in range(len(clean.ts)):
        if connections.starts_in_window[clean.connection[k]]:
            ack_of_packet[clean.packet[k]] = k
    means = np.zeros(1, RUNNING_MEANS)
    ts, sent_before = packets.ts, packets.downlink_bytes_before
    for user in range(len(packets.first) - 1):
        means[0].rtt, means[0].in_spike = 0.0, False
        begin = packets.first[user]
        first_in_flight = next_packet = begin  # the packets before `arrived` had arrived
        for p in range(begin, packets.first[user + 1]):
            k = ack_of_packet[p]
            if k < 0:
                continue
            while next_packet < p and (
                ack_of_packet[next_packet] < 0 or clean.ts[ack_of_packet[next_packet]] <= ts[p]
            ):
                next_packet += 1
                if ack_of_packet[next_packet - 1] >= 0:
                    first_in_flight = next_packet
            flight = sent_before[p + 1] - sent_before[first_in_flight]
            rtt = float(clean.ts[k] - ts[p])
            out[clean.connection[k]] += _spike_begins(
                means[0], rtt, flight, pace[user], clean.maybe_delayed[k]
            )
    return out


@inner
def _spike_begins(means, rtt, flight, pace, maybe_delayed):
    """Whether a spike begins with a round trip (µs), with so many bytes in flight."""
    if means.rtt == 0:
        means.rtt, means.deviation, means.flight = rtt, rtt / 2, flight
        return False
    was_in_spike = means.in_spike
    queueing = max(flight - means.flight, 0.0) * pace
    if pace == 0:
        queueing = means.rtt * max(flight / max(means.flight, 1.0) - 1, 0.0)
    expected = means.rtt + queueing
    margin = max(MIN_DEVIATIONS * means.deviation, MAX_ACK_DELAY_US if maybe_delayed else 0.0)
    means.in_spike = rtt >= MIN_RATIO * expected and rtt > expected + margin
    means.deviation += (abs(rtt - means.rtt) - means.deviation) / 4
    means.rtt += (rtt - means.rtt) / 8
    means.flight += (flight - means.flight) / 8
    return means.in_spike and not was_in_spike
