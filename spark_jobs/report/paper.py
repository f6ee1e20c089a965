"""What papers measured, to stand beside ours: INFOCOM 2004, by table and section; then the studies
of preemption by calls (Wennström, Brunstrom and Rendón), of TCP options (Rendón, Casadevall and
Faner), of buffers (Wennström, Brunstrom and Rendón, Electronics Letters 2004) and of UMTS (Kohlwes,
Riihijärvi and Mähönen)."""

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
    "The paper (Section III.C): mean set-up delay over all connections nearly 2 s over GPRS, "
    "almost twice that of dial-up; in the optimal area without background more than 1 s over GPRS "
    "and around 300 ms over dial-up; that area holds more than 20 % of the connections over "
    "GPRS, but 7 % over dial-up."
)

SETUP_DELAY = (
    "The paper (Section III.A): a peak around one second and a tail reaching 5 to 10 s; with one "
    "SYN, one SYN ACK and no background traffic the delay is almost deterministic; background "
    "traffic dominates the tail."
)

ROUND_TRIP = (
    "The paper (Section III.B): the GPRS round trip at peak is 50 to 100 ms above that at "
    "off-peak; dial-up lies between 100 and 300 ms."
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
"""Goodput in bit/s and samples."""

OPTIONS = (
    "The paper (Section VII): a large MSS gains 15 to 20 %, SACK about 10 %, timestamps 2 to 3 % "
    "(contradicting results in single clusters), a medium window about 10 % over all; it warns "
    "that the clustering variables are not independent of one another."
)

CHANNEL_RATE = (
    "The paper (Section IV): two dominant peaks over GPRS (CS-2, about 12 kbit/s a time slot at "
    "the RLC layer) around 21 to 22 and 34 to 35 kbit/s, two and three time slots; dial-up more "
    "heterogeneous, around 33 and between 40 and 50 kbit/s."
)

THROUGHPUT = (
    "The paper (Section VI.A): the bulk of the distribution lies around the channel rate's peaks; "
    "slow start and losses explain what does not."
)

USER_THROUGHPUT = (
    "The paper (Section VI.B): user throughput improves and comes closer to the channel rate as "
    "background traffic increases, as several flows are less sensitive to losses and timeouts."
)

LIMITS = (
    "The UMTS study (Section IV.A; to its knowledge no other users were there): handovers show as "
    "spikes of the round trip, two in one download from a moving car, and set off no timer."
)

WINDOWS = (
    "The UMTS study (Figs. 5 to 7; MSS of 548, 996 and 1360 B, windows of 2 to 64 segments, one "
    "or two connections): large windows do no harm; two connections are faster than one, and "
    "larger segments are, too, though less clearly."
)

ROUND_TRIP_BY_FLIGHT = (
    "The study of GPRS buffers (Figs. 3 and 4; one time slot): as more is sent, the round trip "
    "grows from 1 to 48 s where the buffer holds 63 s, and goes up and down between 2 and 9 s "
    "where it holds 5 s, at about the same throughput."
)

LARGEST_ROUND_TRIP = {
    (63, 1): 48.0,
    (63, 3): 17.0,
    (5, 1): 9.0,
    (5, 3): 8.0,
}
"""s, by the buffer's lifetime (s) and the time slots; the study of buffers, Fig. 2 and its text."""

RETRANSMISSIONS = {
    "neither": (0.0299, 0.1124),
    "SACK": (0.0330, 0.0173),
    "timestamps": (0.0331, 0.1247),
    "both": (0.0346, 0.0875),
}
"""Data-driven and timer-driven retransmissions of what was sent; the study of options, Table 2."""

SPURIOUS = (
    "The UMTS study (Sections IV.A and IV.E): practically no losses, and spurious retransmissions so rare "
    "that F-RTO and Eifel changed nothing; delays rose slowly enough for the timer."
)

TIMEOUTS = (
    "The study of options (Figs. 4 and 5, Section IV.3; simulated servers): with timestamps the "
    "timeout goes up and down between 20 and 120 s, even 200 s, ten times its least, and goes off "
    "too soon. If so here, quartiles lie further apart with timestamps than without. The UMTS "
    "study (Fig. 2): handovers show in the timeout."
)

PREEMPTED = {
    3: (21_640.0, 0.0696, 2.911),
    6: (22_200.0, 0.0655, 3.081),
    15: (21_270.0, 0.0703, 3.316),
}
"""Throughput in bit/s, retransmitted share, mean round trip in s, by the seconds of each preemption; the
study of preemption, Table I."""

RECOVERY = (
    "The study of preemption (Section III): calls of 3 and 6 s end by an ACK that the mobile had "
    "buffered, and congestion avoidance follows; calls of 15 s end by the server's retransmission, and "
    "slow start follows. It takes about 20 s to recover, as almost ten segments in a row are lost."
)
