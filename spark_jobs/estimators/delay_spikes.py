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

SPIKE, DEVIATIONS = 2, 4
LONGEST_WAIT_US = 500_000
"""An ACK may wait so long for a second packet (RFC 9293, 3.8.6.3)."""

USUAL = np.dtype([("rtt", "f8"), ("deviation", "f8"), ("flight", "f8"), ("in_spike", "?")])
"""A user's running mean of round trips (µs), their mean deviation, the mean of the bytes in flight;
whether the last was a spike's."""


@compiled
def delay_spikes(clean, connections, packets, pace):
    """int64[C]: in how many spikes each connection was the first, of CleanAcks of Connections that
    are mine and all Packets; pace float64[U]: of users' links, µs a byte, 0: not known."""
    out = np.zeros(len(connections.user), np.int64)
    answer = np.full(len(packets.ts), np.int32(-1))
    for k in range(len(clean.ts)):
        if connections.mine[clean.connection[k]]:
            answer[clean.packet[k]] = k
    usual = np.zeros(1, USUAL)
    ts, sent_before = packets.ts, packets.sent_before
    for user in range(len(packets.first) - 1):
        usual[0].rtt, usual[0].in_spike = 0.0, False
        begin = packets.first[user]
        arrived = place = begin  # the packets before `arrived` had arrived
        for p in range(begin, packets.first[user + 1]):
            k = answer[p]
            if k < 0:
                continue
            while place < p and (answer[place] < 0 or clean.ts[answer[place]] <= ts[p]):
                place += 1
                if answer[place - 1] >= 0:
                    arrived = place
            flight = sent_before[p + 1] - sent_before[arrived]
            rtt = float(clean.ts[k] - ts[p])
            out[clean.connection[k]] += _begins(usual[0], rtt, flight, pace[user], clean.single[k])
    return out


@inner
def _begins(usual, rtt, flight, pace, single):
    """Whether a spike begins with a round trip (µs), with so many bytes in flight."""
    if usual.rtt == 0:
        usual.rtt, usual.deviation, usual.flight = rtt, rtt / 2, flight
        return False
    was_in_spike = usual.in_spike
    waits = max(flight - usual.flight, 0.0) * pace
    if pace == 0:
        waits = usual.rtt * max(flight / max(usual.flight, 1.0) - 1, 0.0)
    expected = usual.rtt + waits
    more = max(DEVIATIONS * usual.deviation, LONGEST_WAIT_US if single else 0.0)
    usual.in_spike = rtt >= SPIKE * expected and rtt > expected + more
    usual.deviation += (abs(rtt - usual.rtt) - usual.deviation) / 4
    usual.rtt += (rtt - usual.rtt) / 8
    usual.flight += (flight - usual.flight) / 8
    return usual.in_spike and not was_in_spike
