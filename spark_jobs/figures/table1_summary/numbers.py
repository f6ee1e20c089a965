"""The shares of connections with each option, segment size and window."""

from spark_jobs.figures.numbers import Numbers, Ratio
from spark_jobs.figures.table1_summary.mart import MART

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
    MART,
    [Ratio(name, label, name) for name, label in LABELS.items()],
    counts={"flows": ("TCP connections", "flows")},
)
