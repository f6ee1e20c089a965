"""What limited transfers, and how their throughput grows with the window (Kohlwes, Riihijärvi and
Mähönen, Figs. 1 and 4 to 7; Zhang et al., SIGCOMM 2002)."""

from typing import Any

from markupsafe import Markup

from schemas.flows import LIMITS
from spark_jobs.estimators.by_user import FEWEST_SAMPLES
from spark_jobs.report import paper
from spark_jobs.report.hours import Grid, Hours, split_by_hours
from spark_jobs.report.subplots import GRID
from spark_jobs.report.page_elements import (
    NOT_MEASURED,
    Section,
    NumberTable,
    figure_html,
    group,
    kilobits,
    number,
    unless_empty,
    percent_tenths,
)
from spark_jobs.report.selection import Selection
from spark_jobs.report.why import LIMIT_COLOURS

SEGMENTS = {
    "small": (700, "#9a9a9a", "circle"),
    "medium": (1200, "#666666", "square"),
    "large": (1 << 16, "#1e1e1e", "diamond"),
}
"""Kinds of MSS: below what they are [B], and how they are figure_html; hues are networks'."""
SIDES = {False: ("alone", "solid"), True: ("beside others", "dot")}
COUNTS = "There are no intervals here: the counts tell what a number rests on."


def sections(selection: Selection) -> list[Section]:
    """Both, from the mart limits_by_window."""
    return [_limited(selection), _windows(selection)]


def _limited(selection: Selection) -> Section:
    times = ", ".join(f"sum(limited_{limit}) as {limit}" for limit in LIMITS)
    rows = selection.rows(f"""
        select network, period, sum(flows)::bigint as flows, {times},
            sum(delay_spikes)::bigint as spikes
        from limits_by_window group by all
    """)
    found = [(hours, _shares(hours.rows[0])) for hours in split_by_hours(selection, rows)]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "y": [hours.name for hours, _ in found],
            "x": [100 * shares[limit] for _, shares in found],
            "name": _words(limit),
            "marker": {"color": LIMIT_COLOURS[limit]},
            "hovertemplate": "%{y}: %{x:.1f} %<extra>" + _words(limit) + "</extra>",
        }
        for limit in LIMITS
    ]
    section = Section(
        anchor="limits",
        part="Why transfers were slow",
        title="What limited transfers",
        source="Zhang et al., SIGCOMM 2002; Kohlwes et al. (the UMTS study), Section IV.A",
        hours="peak and off-peak apart",
        caption="The time from the handshakes to the ACKs of the last data, by what held the "
        "transfers up: "
        + "; ".join(f"{_words(k)}: {v}" for k, v in LIMITS.items())
        + ". "
        + COUNTS,
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
            "Shares of transfers' time by what limited them, by network and hours",
            140 + 30 * len(found),
        ),
        tables=[
            NumberTable(
                ["network", "hours", "connections", "hours of transfer"]
                + [_words(limit) for limit in LIMITS]
                + ["delay spikes an hour"],
                [_limited_row(hours, shares) for hours, shares in found],
            )
        ],
        notes=[paper.LIMITS],
    )
    return unless_empty(section, bool(found))


def _words(limit: str) -> str:
    return limit.replace("_", " ")


def _shares(row: dict[str, Any]) -> dict[str, float]:
    whole = sum(row[limit] for limit in LIMITS)
    return {limit: row[limit] / whole if whole else 0.0 for limit in LIMITS}


def _limited_row(hours: Hours, shares: dict[str, float]) -> list[str]:
    [row] = hours.rows
    length = sum(row[limit] for limit in LIMITS) / 3600
    return [
        hours.network.name,
        hours.label,
        number(row["flows"]),
        f"{length:,.1f}",
        *(percent_tenths(shares[limit]) if length else NOT_MEASURED for limit in LIMITS),
        f"{row['spikes'] / length:.1f}" if length else NOT_MEASURED,
    ]


def _windows(selection: Selection) -> Section:
    times = " + ".join(f"limited_{limit}" for limit in LIMITS)
    kinds = " ".join(f"when mss < {to} then '{kind}'" for kind, (to, *_) in SEGMENTS.items())
    rows = selection.rows(f"""
        select network, period, window_segments, parallel > 1 as beside,
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
        hours="peak and off-peak apart",
        caption="Mean throughput of the users during their connections above 100 KB, by the "
        "mobile's largest window in segments; alone, or beside other connections of the user, "
        "whose bytes count. Segments are small below 700 B, large from 1200 B. Where a line is "
        f"level, the window is large enough. Points rest on {FEWEST_SAMPLES} connections or more. "
        + COUNTS,
        samples=f"{number(sum(row['flows'] for row in rows))} connections above 100 KB",
        figure=_by_window(by_hours),
        collapsed_tables=[_window_table(by_hours)],
        notes=[paper.WINDOWS],
    )
    return unless_empty(section, bool(by_hours))


def _by_window(by_hours: list[Hours]) -> Markup:
    if not by_hours:
        return Markup()
    grid = Grid.of(by_hours, 0.06)
    traces: list[dict[str, Any]] = []
    shown = set()
    for hours in by_hours:
        for (mss, beside), members in group(hours.rows, "mss", "beside").items():
            points = [row for row in members if row["flows"] >= FEWEST_SAMPLES]
            if not points:
                continue
            name = f"{mss} segments, {SIDES[beside][0]}"
            _, colour, symbol = SEGMENTS[mss]
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "x": [row["window_segments"] for row in points],
                    "y": [row["throughput"] / row["flows"] / 1000 for row in points],
                    "text": [number(row["flows"]) for row in points],
                    "name": name,
                    "legendgroup": name,
                    "legendrank": 2 * list(SEGMENTS).index(mss) + beside,
                    "showlegend": name not in shown,
                    "line": {"color": colour, "dash": SIDES[beside][1], "width": 1.6},
                    "marker": {"symbol": symbol, "size": 7, "color": colour},
                    "hovertemplate": "window from %{x} segments: %{y:.1f} kbit/s, %{text} "
                    "connections<extra>" + name + "</extra>",
                    **grid.axes(hours),
                }
            )
            shown.add(name)
    grid.set(
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
            "segments",
            "connections",
            "window from [segments]",
            "above 100 KB",
            "mean throughput",
            "time limited by the window",
        ],
        [
            [
                hours.network.name,
                hours.label,
                row["mss"],
                SIDES[row["beside"]][0],
                number(row["window_segments"]),
                number(row["flows"]),
                kilobits(row["throughput"] / row["flows"]),
                percent_tenths(row["receiver"] / row["time"] if row["time"] else None),
            ]
            for hours in by_hours
            for row in hours.rows
        ],
        "numbers of each point",
    )
