"""Delay spikes: RTTs on the access side that are suddenly far above the running mean.

A handover, a cell reselection or a preemption holds up the data in flight to a user (Gurtov and
Ludwig, INFOCOM 2003; RFC 3481, 2.2). An RTT is a spike under these conditions:

- it is at least MIN_RATIO times the running mean;
- it is more than MIN_DEVIATIONS mean deviations above the mean (both computed as in RFC 6298);
- neither the queueing of the user's own data in flight, at the link's rate, nor a delayed ACK
  explains it.

A spike lasts until an RTT is below these limits again. Only clean ACKs count. A spike that makes
the server's retransmission timer expire is visible as a spurious RTO expiry instead (see `sender`).
"""

import numpy as np

from spark_jobs.compiled import compiled, inner

MIN_RATIO, MIN_DEVIATIONS = 2, 4
"""Minimum RTT of a spike, in running means and in mean deviations above the mean."""
MAX_ACK_DELAY_US = 500_000
"""Maximum time that an ACK waits for a second packet (RFC 9293, 3.8.6.3)."""

RUNNING_MEANS = np.dtype([("rtt", "f8"), ("deviation", "f8"), ("flight", "f8"), ("in_spike", "?")])
"""A user's running means.

rtt: mean RTT (µs)
deviation: mean deviation of the RTTs (µs)
flight: mean of the bytes in flight (B)
in_spike: the last RTT belonged to a spike
"""


@compiled
def delay_spikes(clean, connections, packets, pace):
    """Return int64[C]: the number of spikes in which each connection was the first.

    Arguments: the CleanAcks of Connections, and all Packets. Only connections that start in the
    time window count. pace: float64[U], of users' links, µs a byte; 0 if it is not known.
    """
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
        first_in_flight = next_packet = begin  # all packets before it had arrived
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
    """Update the running means with an RTT (µs) and return whether a spike begins with it.

    flight: bytes in flight (B); pace: µs a byte, 0 if it is not known.
    """
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
