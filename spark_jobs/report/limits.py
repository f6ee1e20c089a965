"""Limits of transfers, and throughput by receive window.

Sources: Kohlwes, Riihijärvi and Mähönen, Figs. 1 and 4 to 7; Zhang et al., SIGCOMM 2002.
"""

from typing import Any

from markupsafe import Markup

from schemas.flows import LIMITS
from spark_jobs.figures.statistics import MIN_SAMPLES
from spark_jobs.report import paper
from spark_jobs.report.hours import Grid, Hours, split_by_hours
from spark_jobs.report.page_elements import (
    NOT_MEASURED,
    NumberTable,
    Section,
    figure_html,
    group_rows,
    kilobits,
    number,
    percent_tenths,
    unless_empty,
)
from spark_jobs.report.selection import Selection
from spark_jobs.report.subplots import GRID
from spark_jobs.report.why import LIMIT_COLOURS

SEGMENT_SIZES = {
    "small": (700, "#9a9a9a", "circle"),
    "medium": (1200, "#666666", "square"),
    "large": (1 << 16, "#1e1e1e", "diamond"),
}
"""By class of MSS: upper limit (B), colour and symbol; hues stand for networks."""
PARALLEL = {False: ("one connection", "solid"), True: ("parallel connections", "dot")}
"""By presence of other connections of the user at the same time: label and dash style."""
NO_INTERVALS = "This section has no confidence intervals; the counts show the sample sizes."


def sections(selection: Selection) -> list[Section]:
    """Return the limits of transfers and the throughput by window."""
    return [_limits_section(selection), _windows_section(selection)]


def _limits_section(selection: Selection) -> Section:
    times = ", ".join(f"sum(limited_{limit}) as {limit}" for limit in LIMITS)
    rows = selection.rows(f"""
        select network, period, sum(flows)::bigint as flows, {times},
            sum(delay_spikes)::bigint as spikes
        from limits_by_window group by all
    """)
    by_hours = [(hours, _shares(hours.rows[0])) for hours in split_by_hours(selection, rows)]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "y": [hours.name for hours, _ in by_hours],
            "x": [100 * shares[limit] for _, shares in by_hours],
            "name": _limit_text(limit),
            "marker": {"color": LIMIT_COLOURS[limit]},
            "hovertemplate": "%{y}: %{x:.1f} %<extra>" + _limit_text(limit) + "</extra>",
        }
        for limit in LIMITS
    ]
    section = Section(
        anchor="limits",
        part_heading="Why transfers were slow",
        title="Limits of transfers",
        source="Zhang et al., SIGCOMM 2002; Kohlwes et al. (the UMTS study), Section IV.A",
        hours="peak and off-peak separately",
        caption="Time from the handshakes to the ACKs of the last data, by the limit of the "
        "transfers: "
        + "; ".join(f"{_limit_text(k)}: {v}" for k, v in LIMITS.items())
        + ". "
        + NO_INTERVALS,
        samples=f"{number(sum(row['flows'] for row in rows))} connections",
        figure=figure_html(
            {
                "data": traces,
                "layout": {
                    "barmode": "stack",
                    "xaxis": {"title": {"text": "Share of the time [%]"}, "range": [0, 100]},
                    "yaxis": {"autorange": "reversed", "automargin": True},
                },
            },
            "Shares of transfers' time by limit, network and hours",
            140 + 30 * len(by_hours),
        ),
        tables=[
            NumberTable(
                ["network", "hours", "connections", "transfer time [h]"]
                + [_limit_text(limit) for limit in LIMITS]
                + ["delay spikes per hour"],
                [_limited_row(hours, shares) for hours, shares in by_hours],
            )
        ],
        notes=[paper.LIMITS],
    )
    return unless_empty(section, bool(by_hours))


def _limit_text(limit: str) -> str:
    return limit.replace("_", " ")


def _shares(row: dict[str, Any]) -> dict[str, float]:
    total = sum(row[limit] for limit in LIMITS)
    return {limit: row[limit] / total if total else 0.0 for limit in LIMITS}


def _limited_row(hours: Hours, shares: dict[str, float]) -> list[str]:
    [row] = hours.rows
    duration_h = sum(row[limit] for limit in LIMITS) / 3600
    return [
        hours.network.name,
        hours.label,
        number(row["flows"]),
        f"{duration_h:,.1f}",
        *(percent_tenths(shares[limit]) if duration_h else NOT_MEASURED for limit in LIMITS),
        f"{row['spikes'] / duration_h:.1f}" if duration_h else NOT_MEASURED,
    ]


def _windows_section(selection: Selection) -> Section:
    times = " + ".join(f"limited_{limit}" for limit in LIMITS)
    kinds = " ".join(
        f"when mss < {limit} then '{kind}'" for kind, (limit, *_) in SEGMENT_SIZES.items()
    )
    rows = selection.rows(f"""
        select network, period, window_segments, parallel > 1 as has_parallel,
            case {kinds} end as mss,
            sum(user_throughput_flows)::bigint as flows,
            sum(user_throughput_sum) as throughput,
            sum(limited_receiver) as receiver, sum({times}) as time
        from limits_by_window
        where mss is not null and window_segments is not null and parallel is not null
        group by all having sum(user_throughput_flows) > 0 order by all
    """)
    by_hours = split_by_hours(selection, rows)
    section = Section(
        anchor="windows",
        title="Throughput by window, segment size and parallel connections",
        source="Kohlwes, Riihijärvi and Mähönen (the UMTS study), Figs. 5 to 7",
        hours="peak and off-peak separately",
        caption="Mean throughput of users during their connections above 100 KB, by the mobile's "
        "largest window in segments. One connection: the user has no other at the same time. "
        "Parallel connections: the user has others, whose bytes count, too. Segments are small "
        "below 700 B, large from 1200 B. If a line is level, the window is large enough. A point "
        f"has at least {MIN_SAMPLES} connections. " + NO_INTERVALS,
        samples=f"{number(sum(row['flows'] for row in rows))} connections above 100 KB",
        figure=_windows_figure(by_hours),
        collapsed_tables=[_window_table(by_hours)],
        notes=[paper.WINDOWS],
    )
    return unless_empty(section, bool(by_hours))


def _windows_figure(by_hours: list[Hours]) -> Markup:
    if not by_hours:
        return Markup()
    grid = Grid.of_hours(by_hours, 0.06)
    traces: list[dict[str, Any]] = []
    in_legend = set()
    for hours in by_hours:
        for (mss, has_parallel), members in group_rows(hours.rows, "mss", "has_parallel").items():
            points = [row for row in members if row["flows"] >= MIN_SAMPLES]
            if not points:
                continue
            name = f"{mss} segments, {PARALLEL[has_parallel][0]}"
            _, colour, symbol = SEGMENT_SIZES[mss]
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "x": [row["window_segments"] for row in points],
                    "y": [row["throughput"] / row["flows"] / 1000 for row in points],
                    "text": [number(row["flows"]) for row in points],
                    "name": name,
                    "legendgroup": name,
                    "legendrank": 2 * list(SEGMENT_SIZES).index(mss) + has_parallel,
                    "showlegend": name not in in_legend,
                    "line": {"color": colour, "dash": PARALLEL[has_parallel][1], "width": 1.6},
                    "marker": {"symbol": symbol, "size": 7, "color": colour},
                    "hovertemplate": "window of at least %{x} segments: %{y:.1f} kbit/s, %{text} "
                    "connections<extra>" + name + "</extra>",
                    **grid.axes(hours),
                }
            )
            in_legend.add(name)
    grid.set_axes(
        {
            "title": {"text": "Largest window [segments]"},
            "type": "log",
            "tickvals": [1 << k for k in range(0, 20, 2)],
            "showgrid": True,
            "gridcolor": GRID,
        },
        {"title": {"text": "kbit/s"}, "rangemode": "tozero", "showgrid": True, "gridcolor": GRID},
    )
    return figure_html(
        {"data": traces, "layout": grid.plots.layout},
        "Mean throughput by window, by network, hours, segment size and parallel connections",
        130 + 220 * len(grid.names),
    )


def _window_table(by_hours: list[Hours]) -> NumberTable:
    return NumberTable(
        [
            "network",
            "hours",
            "segment size",
            "other connections",
            "window, at least [segments]",
            "connections above 100 KB",
            "mean throughput",
            "time limited by the window",
        ],
        [
            [
                hours.network.name,
                hours.label,
                row["mss"],
                PARALLEL[row["has_parallel"]][0],
                number(row["window_segments"]),
                number(row["flows"]),
                kilobits(row["throughput"] / row["flows"]),
                percent_tenths(row["receiver"] / row["time"] if row["time"] else None),
            ]
            for hours in by_hours
            for row in hours.rows
        ],
        "Numbers of each point",
    )
