"""RTTs on the access side during a transfer: from a data packet to the ACK that covers it.

    Gi to mobile   d1   d2   d3           a2 covers d1 and d2: it answers d2, the later one
    mobile to Gi             a2  a3

Karn's rule (Karn and Partridge, SIGCOMM 1987; RFC 6298, 3) applies: data that was sent more than
once gives no RTT, because the ACK may answer any transmission. `clean_acks` keeps to it, and leaves
out ACKs that waited for a hole to be filled.
"""

import numpy as np

from spark_jobs.compiled import compiled


@compiled
def min_access_rtts(clean, connections, packets):
    """Return float64[C], s: the smallest RTT of a downlink data packet of each connection.

    A delayed ACK's wait is included. NaN without any RTT. Arguments: CleanAcks, their Connections
    and all Packets.
    """
    min_rtts = np.full(len(connections.user), np.nan)
    for k in range(len(clean.ts)):
        c, packet = clean.connection[k], clean.packet[k]
        if packets.payload_len[packet]:
            min_rtts[c] = np.fmin(min_rtts[c], (clean.ts[k] - packets.ts[packet]) / 1e6)
    return min_rtts
