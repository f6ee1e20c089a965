"""Limits of transfers, and throughput by window and segment size."""

from dataclasses import replace

from schemas.flows import LIMITS
from spark_jobs.figures.charts import bars, share_bars
from spark_jobs.figures.colours import by_hours
from spark_jobs.figures.dashboard_parts import Chart, Dataset, Metric, Text
from spark_jobs.figures.dashboard_sql import FLOWS, KEYS, USERS
from spark_jobs.figures.limits_by_window.numbers import (
    LIMIT_COLOURS,
    LIMIT_LABELS,
    MIN_LARGE_MSS,
    MIN_MEDIUM_MSS,
    MSS_CLASS,
    MSS_COLOURS,
    WINDOWS,
)
from spark_jobs.figures.statistics import MIN_SAMPLES

PAGE = "giscope-why"
COLOURS = {
    **{LIMIT_LABELS[limit]: colour for limit, colour in LIMIT_COLOURS.items()},
    **by_hours(MSS_COLOURS),
}
TRANSFER_LIMITS = Dataset(
    "limits",
    f"""
select {KEYS},
    unnest({list(LIMIT_LABELS.values())}) as limited_by,
    unnest([{", ".join(f"limited_{limit}" for limit in LIMITS)}]) as seconds
from limits_by_window
""",
    [Metric("seconds", "sum(seconds)", "time of transfers [s]", ",.0f")],
    "connections with known limits",
)
BY_WINDOW = Dataset(
    "windows",
    f"""
select *, {MSS_CLASS} || ', ' || hours as segment
from (
    select {KEYS}, mss, window_segments, parallel, {USERS},
        user_throughput_flows as flows, user_throughput_flows, user_throughput_sum
    from limits_by_window where {WINDOWS.where}
)
""",
    [FLOWS, WINDOWS["throughput"].metric],
    "connections above 100 KiB with known window and MSS",
)


def _window_chart(title: str, where: str) -> Chart:
    chart = bars(
        f"User throughput by window and MSS, {title}, of one network"
        f" (small: < {MIN_MEDIUM_MSS} B, large: ≥ {MIN_LARGE_MSS} B)",
        BY_WINDOW, "window_segments", "throughput", "segment",
        x_title="Mobile's window, lower edge [segments]", where=where,
        having=f"sum(flows) >= {MIN_SAMPLES}", height=42,
    )  # fmt: skip
    return replace(chart, one_network=True)


LIMITS_LIST = "\n".join(f"- {LIMIT_LABELS[name]}: {when}" for name, when in LIMITS.items())
TEXT = f"""
**Limits of transfers**, from the handshake to the ACK of the last data:

{LIMITS_LIST}
"""
ROWS = [
    [
        share_bars("Limits of transfers", TRANSFER_LIMITS, "limited_by", "seconds",
                   "Share of the transfers' time", width=8),
        Text(TEXT, height=50),
    ],
    [_window_chart("one connection at a time", "parallel = 1")],
    [_window_chart("several connections at once", "parallel > 1")],
]  # fmt: skip
