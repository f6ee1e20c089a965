"""Explicit Congestion Notification: marks in place of losses, and on which side they were made.

A router marks a packet that it would drop otherwise: it sets the IP header's ECN field to CE. At
Gi, downlink packets with CE were marked on the Internet side, and uplink packets with CE on the
access side. Marks that the access side makes in downlink packets are not seen at Gi, but the mobile
reports them to the server:

- With classic ECN (RFC 3168) it sets ECE in all ACKs, from a marked packet on until the server's
  CWR arrives. So the number of episodes is known, not that of marks. An episode is the Internet
  side's if Gi saw a packet with CE that its first ACK can answer.
- With accurate ECN (RFC 9768), each packet counts the marked packets that the mobile received,
  modulo 8, in the flags AE, CWR and ECE. Those that had CE at Gi are subtracted.

The two ends agree on ECN by these flags of the SYN and the SYN ACK (RFC 9768, 3.1.1).
"""

import numpy as np

from spark_jobs.compiled import compiled, inner
from spark_jobs.estimators.records import Connections, Segments
from spark_jobs.estimators.sequence import NONE, sequence_length
from spark_jobs.estimators.tcp import ACK, CWR, ECE, RST, SYN

CE = 3
"""The ECN field's value for a marked packet."""
KINDS = ("none", "classic", "accurate", "unknown")
NO_ECN, CLASSIC, ACCURATE, UNKNOWN = range(len(KINDS))
COUNTER_SHIFT = 6
"""Position of AE, CWR and ECE, the counter of accurate ECN, in the flags."""
FIRST_COUNT = 5
"""Value of the counter when no packet was marked yet (RFC 9768, 3.2.1)."""
MAX_ADVANCE = 6
"""Largest advance of the counter from ACK to ACK; a larger one is an earlier ACK's value."""

ECN = np.dtype(
    [
        ("kind", "i1"),
        ("ect_up", "i8"),
        ("ect_down", "i8"),
        ("ce_up", "i8"),
        ("ce_down", "i8"),
        ("reported", "i8"),
        ("episodes_access", "i8"),
        ("episodes_internet", "i8"),
    ]
)
"""ECN of a connection.

kind: into KINDS; UNKNOWN if the SYN or the SYN ACK was not seen
ect_up, ect_down: number of packets whose ECN field says that they can be marked, CE included
ce_up, ce_down: number of packets with CE at Gi
reported: number of marked packets that the mobile reports with accurate ECN
episodes_access, episodes_internet: episodes of ECE, by the side of the mark
"""


def marks(segments: Segments, connections: Connections) -> tuple[np.ndarray, np.ndarray]:
    """Return ECN[C] of the connections, and bool[N]: the segments that report new marks."""
    found = np.zeros(len(connections.user), ECN)
    reports = np.zeros(len(segments.ts), np.bool_)
    _count(segments, connections.first, found, reports)
    return found, reports


@compiled
def _count(segments, first, found, reports):
    """Fill ECN[C] and bool[N] (see marks)."""
    for c in range(len(found)):
        ecn = found[c]
        ecn.kind = UNKNOWN
        asked, answered, counter = np.int64(-1), np.int64(-1), np.int64(-1)
        highest = NONE
        echoes, cwr_end, ce_at = False, NONE, NONE
        for i in range(first[c], first[c + 1]):
            flags, number = segments.tcp_flags[i], segments.number[i]
            bits = np.int64(flags >> COUNTER_SHIFT & 7)
            if segments.downlink[i]:
                ecn.ect_down += segments.ecn[i] > 0
                ecn.ce_down += segments.ecn[i] == CE
            else:
                ecn.ect_up += segments.ecn[i] > 0
                ecn.ce_up += segments.ecn[i] == CE
            if flags & SYN:
                if flags & ACK:
                    answered = bits
                else:
                    asked = max(asked, bits)
                ecn.kind = _kind(asked, answered)
            elif flags & RST or number == NONE:
                continue
            elif segments.downlink[i]:
                if segments.ecn[i] == CE and ce_at == NONE:
                    ce_at = number
                if flags & CWR and echoes:
                    cwr_end = number + sequence_length(flags, segments.payload_len[i])
            elif number >= highest:
                highest = number
                if ecn.kind == ACCURATE:
                    if counter >= 0:
                        # The handshake's last ACK has another meaning (RFC 9768, 3.2.2.1).
                        advance = (bits - counter) & 7
                        if advance > MAX_ADVANCE:
                            continue
                        ecn.reported += advance
                        reports[i] = advance > 0
                        counter = bits
                    else:
                        counter = np.int64(FIRST_COUNT)
                elif ecn.kind == CLASSIC:
                    answers_ce = ce_at != NONE and number > ce_at
                    if flags & ECE and (not echoes or (cwr_end != NONE and number >= cwr_end)):
                        reports[i], cwr_end = True, NONE
                        ecn.episodes_internet += answers_ce
                        ecn.episodes_access += not answers_ce
                    if answers_ce:
                        ce_at = NONE
                    echoes = flags & ECE != 0
                    if not echoes:
                        cwr_end = NONE


@inner
def _kind(asked, answered):
    """Return the kind of ECN by the flags AE, CWR and ECE of the SYN and the SYN ACK."""
    if asked < 0 or answered < 0:
        return UNKNOWN
    if asked == 7 and answered in (2, 3, 4, 6):
        return ACCURATE
    return CLASSIC if asked in (3, 7) and answered in (1, 5) else NO_ECN
