"""Throughput by window and segment size."""

from dataclasses import replace

from spark_jobs.figures.charts import bars
from spark_jobs.figures.colours import by_hours
from spark_jobs.figures.dashboard_parts import Chart, Dataset
from spark_jobs.figures.dashboard_sql import FLOWS, KEYS, USERS
from spark_jobs.figures.limits_by_window.numbers import (
    MIN_LARGE_MSS,
    MIN_MEDIUM_MSS,
    MSS_CLASS,
    MSS_COLOURS,
    WINDOWS,
)

TAB = "why"
COLOURS = by_hours(MSS_COLOURS)
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
        x_title="Mobile's window, lower edge [segments]", where=where, height=42,
    )  # fmt: skip
    return replace(chart, one_network=True)


ROWS = [
    [_window_chart("one connection at a time", "parallel = 1")],
    [_window_chart("several connections at once", "parallel > 1")],
]  # fmt: skip
