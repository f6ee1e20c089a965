"""Table I: summary statistics, measured and in the paper."""

from spark_jobs.figures.figure import Figure
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import Numbers, Ratio

LABELS = {
    "sack": "SACK enabled",
    "timestamps": "TCP timestamp",
    "mss_low": "MSS low (largest IP packet 400–600 B)",  # noqa: RUF001
    "mss_high": "MSS high (1400–1600 B)",  # noqa: RUF001
    "window_low": "Wnd low (< 10,000 B)",
    "window_med": "Wnd med (10,000–20,000 B)",  # noqa: RUF001
    "window_high": "Wnd high (> 20,000 B)",
}
NUMBERS = Numbers(
    mart("table1_summary"),
    [
        *(Ratio(name, label, name) for name, label in LABELS.items()),
        *(
            Ratio(
                f"opened_{name}",
                f"{LABELS[name]}, of completed set-ups",
                f"opened_{name}",
                "opened",
                samples="opened",
            )
            for name in ("sack", "timestamps")
        ),
    ],
    counts={"flows": ("TCP connections", "flows")},
)
PAPER: dict[str, dict[str, float]] = {
    "paper: Sum of all GPRS": {
        "flows": 12_587_056,
        "sack": 0.5549,
        "timestamps": 0.0948,
        "mss_low": 0.2512,
        "mss_high": 0.2252,
        "window_low": 0.5590,
        "window_med": 0.2554,
        "window_high": 0.1856,
    },
    "paper: Wireline dial-up": {
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
FIGURE = Figure(
    "table1",
    "Table I. Summary statistics",
    "INFOCOM 2004, Section II",
    "Connections that the mobile opened, failed set-ups included. SACK is enabled if both SYNs "
    "permit it, timestamps if both directions carry them; a failed set-up has neither. The window "
    "is the largest that the mobile advertised, with window scaling applied.",
    "overview",
    NUMBERS,
    in_columns=True,
    paper=PAPER,
    paper_places=2,
)
