"""Results of the papers, shown with the measured values.

INFOCOM 2004 comes first, by table and section. Then follow the studies of preemption by calls
(Wennström, Brunstrom and Rendón), of TCP options (Rendón, Casadevall and Faner), of buffers
(Wennström, Brunstrom and Rendón, Electronics Letters 2004) and of UMTS (Kohlwes, Riihijärvi and
Mähönen).
"""

TABLE_1 = {
    "Sum of all GPRS": {
        "flows": 12_587_056,
        "sack": 0.5549,
        "timestamps": 0.0948,
        "mss_low": 0.2512,
        "mss_high": 0.2252,
        "window_low": 0.5590,
        "window_med": 0.2554,
        "window_high": 0.1856,
    },
    "Wireline dial-up": {
        "flows": 225_932,
        "sack": 0.5948,
        "timestamps": 0.0245,
        "mss_low": 0.4929,
        "mss_high": 0.0796,
        "window_low": 0.9674,
        "window_med": 0.0101,
        "window_high": 0.0225,
    },
}

SETUP_TREE = (
    "The paper (Section III.C): the mean set-up delay of all connections is nearly 2 s over GPRS, "
    "almost twice that of dial-up. In the optimal area without background traffic it is more than "
    "1 s over GPRS and around 300 ms over dial-up. That area contains more than 20 % of the "
    "connections over GPRS, but 7 % over dial-up."
)

SETUP_DELAY = (
    "The paper (Section III.A): a peak around one second and a tail of 5 to 10 s. With one SYN, "
    "one SYN ACK and no background traffic, the delay is almost deterministic. Background traffic "
    "dominates the tail."
)

RTT = (
    "The paper (Section III.B): the RTT over GPRS at peak is 50 to 100 ms above that at off-peak; "
    "over dial-up it lies between 100 and 300 ms."
)

TABLE_2 = {
    "Average GPRS": {"internet": 0.0015, "access": 0.0122},
    "Wireline dial-up": {"internet": 0.0039, "access": 0.0016},
}

FIG_8 = {"paper: GPRS": {"none": 0.47, "access": 0.48, "internet": 0.05}}

TABLE_3 = {
    "MSS low": (20048.52, 17_901),
    "MSS high": (24936.86, 100_654),
    "SACK": (25425.25, 59_750),
    "no SACK": (23136.50, 64_957),
    "timestamps": (25342.24, 17_739),
    "no timestamps": (24049.16, 106_968),
    "window low": (22542.80, 42_754),
    "window med": (25723.40, 44_726),
    "window high": (24383.82, 37_227),
    "overall": (24233.09, 124_707),
}
"""By cluster: mean goodput (bit/s) and samples."""

OPTIONS = (
    "The paper (Section VII): a large MSS gains 15 to 20 %, SACK about 10 %, timestamps 2 to 3 % "
    "(with contradicting results in single clusters), a medium window about 10 % overall. The "
    "paper warns that the clustering variables are not independent of each other."
)

CHANNEL_RATE = (
    "The paper (Section IV): two dominant peaks over GPRS (CS-2, about 12 kbit/s a time slot at "
    "the RLC layer), around 21 to 22 and 34 to 35 kbit/s: two and three time slots. Dial-up is "
    "more heterogeneous, around 33 and between 40 and 50 kbit/s."
)

THROUGHPUT = (
    "The paper (Section VI.A): most of the distribution lies around the channel rate's peaks. Slow "
    "start and losses explain the rest."
)

USER_THROUGHPUT = (
    "The paper (Section VI.B): user throughput improves and comes closer to the channel rate as "
    "background traffic increases, as several connections are less sensitive to losses and "
    "timeouts."
)

LIMITS = (
    "The UMTS study (Section IV.A; to its knowledge without other users): handovers appear as "
    "delay spikes, two in one download from a moving car, and cause no RTO expiry."
)

WINDOWS = (
    "The UMTS study (Figs. 5 to 7; MSS of 548, 996 and 1360 B, windows of 2 to 64 segments, one "
    "or two connections): large windows do no harm. Two connections are faster than one. Larger "
    "segments are faster, too, but less clearly."
)

RTT_BY_FLIGHT = (
    "The study of GPRS buffers (Figs. 3 and 4; one time slot): with more bytes in flight, the RTT "
    "grows from 1 to 48 s if the buffer lifetime is 63 s, and varies between 2 and 9 s if it is 5 "
    "s. The throughput is about the same."
)

LARGEST_RTT = {
    (63, 1): 48.0,
    (63, 3): 17.0,
    (5, 1): 9.0,
    (5, 3): 8.0,
}
"""RTT (s) by buffer lifetime (s) and time slots; the study of buffers, Fig. 2 and its text."""

RETRANSMISSIONS = {
    "neither": (0.0299, 0.1124),
    "SACK": (0.0330, 0.0173),
    "timestamps": (0.0331, 0.1247),
    "both": (0.0346, 0.0875),
}
"""By options: shares of data-driven and timer-driven retransmissions.

Source: the study of options, Table 2.
"""

SPURIOUS = (
    "The UMTS study (Sections IV.A and IV.E): practically no losses. Spurious retransmissions were "
    "so rare that F-RTO and Eifel changed nothing; delays rose slowly enough for the timer."
)

RTO = (
    "The study of options (Figs. 4 and 5, Section IV.3; simulated servers): with timestamps the "
    "RTO varies between 20 and 120 s, even 200 s, ten times its minimum, and expires spuriously. "
    "If this network behaves alike, the quartiles lie further apart with timestamps than without. "
    "The UMTS study (Fig. 2): handovers change the RTO."
)

PREEMPTED = {
    3: (21_640.0, 0.0696, 2.911),
    6: (22_200.0, 0.0655, 3.081),
    15: (21_270.0, 0.0703, 3.316),
}
"""By duration of each preemption (s): throughput (bit/s), retransmitted share, mean RTT (s).

Source: the study of preemption, Table I.
"""

RECOVERY = (
    "The study of preemption (Section III): calls of 3 and 6 s end with an ACK that the mobile had "
    "buffered, and congestion avoidance follows. Calls of 15 s end with the server's "
    "retransmission, and slow start follows. The recovery takes about 20 s, as almost ten segments "
    "in a row are lost."
)
