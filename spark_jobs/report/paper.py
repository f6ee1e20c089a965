"""What the paper measured, to stand beside ours: INFOCOM 2004, by table and section."""

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
