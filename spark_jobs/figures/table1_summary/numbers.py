"""The shares of connections with each option, segment size and window."""

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
    [Ratio(name, label, name) for name, label in LABELS.items()],
    counts={"flows": ("TCP connections", "flows")},
)
