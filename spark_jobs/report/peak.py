"""The first page: what differs between peak and off-peak, network by network, and day by day."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from markupsafe import Markup

from spark_jobs.report.compare import OFF_PEAK, PEAK, Comparison, Subset, by, comparisons, pairs
from spark_jobs.report.metrics import SHOWN
from spark_jobs.report.subplots import subplots
from spark_jobs.report.page_elements import ACCESS, Section, NumberTable, figure_html
from spark_jobs.report.selection import Selection, ShownNetwork

ROWS = 5
"""Metrics a figure: as many as a sheet of paper has room for."""
CLAIM = (
    "On the access side is the access side, on the Internet side the Internet side. Round trips are the handshake's; "
    "the channel rate is the mean over measured time; throughput and goodput are means of "
    "connections and count what arrived at the mobile. Ranges are 95 % confidence intervals, "
    "clustered by user. A full dot: a difference beyond chance, with all comparisons on this page "
    "taken into account (Holm 1979, 5 % for all together). 'Perhaps': its own interval leaves out "
    "zero, but among so many comparisons chance may do that."
)


def sections(selection: Selection) -> list[Section]:
    """Peak against off-peak, then each network's days and hours if there are several days."""
    out = [comparison(selection, PEAK, OFF_PEAK)]
    if selection.first_day < selection.last_day:
        daily = _values(selection, "period")
        hourly = _values(selection, "hour")
        out += [
            _days(selection, network, daily[network.name], hourly[network.name])
            for network in selection.networks
        ]
    return out


Values = dict[str, list[tuple[Any, str, float]]]
"""By metric: a period or an hour, the day, and the value in the unit that is shown."""


def _values(selection: Selection, column: str) -> dict[str, Values]:
    """Every network's metrics day by day, where they rest on enough."""
    found: dict[str, Values] = {network.name: {} for network in selection.networks}
    for key, sums in by(selection, "metrics", "true", ("network", "metric", column, "date")):
        network, metric, part, day = key
        if network in found and sums.value is not None:
            of_metric = found[network].setdefault(metric, [])
            of_metric.append((part, str(day)[:10], SHOWN[metric].unit.scale * sums.value))
    return found


def comparison(selection: Selection, first: Subset, second: Subset) -> Section:
    """Two halves, metric by metric."""
    found = comparisons(selection, first, second)
    notes = [
        f"{network.name}: not compared; too few connections, or none, {first.name} or "
        f"{second.name}."
        for network, _ in pairs(selection.networks, first, second)
        if not any(c.network is network and c.difference.estimate is not None for c in found)
    ]
    return Section(
        anchor="compare",
        title=f"{_title(first)} against {second.name.removeprefix('with ')}",
        source=_hours(selection) if first is PEAK and second is OFF_PEAK else "two selections",
        caption=CLAIM,
        hours="",
        samples=f"{sum(c.claimed for c in found)} of {len(found)} differences are beyond chance",
        figure=_forest(selection, found, first, second),
        tables=_tables(selection, found, first, second),
        open_tables=True,
        notes=notes,
    )


def _hours(selection: Selection) -> str:
    """When peak and off-peak are, where the networks agree on it."""
    rows = selection.rows("""
        select distinct peak_from, peak_until, off_peak_from, off_peak_until from networks
        where network in (select network from table1_summary)
    """)
    if len(rows) != 1:
        return "peak and off-peak hours as each network's profile has them, local time"
    return (
        "Peak: {peak_from} to {peak_until} h, off-peak: {off_peak_from} to {off_peak_until} h, "
        "local time".format(**rows[0])
    )


def _title(half: Subset) -> str:
    name = half.name.removeprefix("with ")
    return "Peak" if half is PEAK else name


def _tables(
    selection: Selection, found: list[Comparison], first: Subset, second: Subset
) -> list[NumberTable]:
    headings = ["metric", first.name, second.name, "what differs (95 % interval)"]
    return [
        NumberTable(
            headings,
            [
                [
                    SHOWN[c.metric].title,
                    SHOWN[c.metric].unit.value(c.difference.first),
                    SHOWN[c.metric].unit.value(c.difference.second),
                    ("● " if c.claimed else "") + c.sentence,
                ]
                for c in found
                if c.network is network
            ],
            f"{network.name} ({ACCESS.get(network.access, network.access)})",
        )
        for network in selection.networks
        if any(c.network is network for c in found)
    ]


def _forest(selection: Selection, found: list[Comparison], first: Subset, second: Subset) -> Markup:
    """By how many per cent the first half differs, with intervals."""
    figure = go.Figure()
    titles = [shown.title for shown in SHOWN.values()]
    networks = [n for n in selection.networks if any(c.network is n and _part(c) for c in found)]
    for place, network in enumerate(networks):
        mine = [(c, *part) for c in found if c.network is network and (part := _part(c))]
        shift = (place - (len(networks) - 1) / 2) * 0.7 / max(len(networks), 2)
        figure.add_trace(
            go.Scatter(
                x=[estimate for _, estimate, _ in mine],
                y=[titles.index(SHOWN[c.metric].title) + shift for c, _, _ in mine],
                mode="markers",
                name=network.name,
                showlegend=True,
                marker={
                    "color": network.colour,
                    "size": 9,
                    "symbol": ["circle" if c.claimed else "circle-open" for c, _, _ in mine],
                },
                error_x={
                    "array": [reach for _, _, reach in mine],
                    "color": network.colour,
                    "thickness": 1.4,
                    "width": 0,
                },
                text=[f"{SHOWN[c.metric].title}: {c.sentence}" for c, _, _ in mine],
                hovertemplate="%{text}<extra>" + network.name + "</extra>",
            )
        )
    widest = max((abs(x) for trace in figure.data for x in trace.x), default=10.0)
    reach = min(max(1.6 * widest, 10.0), 200.0)
    figure.add_vline(x=0, line={"color": "#777777", "width": 1})
    figure.update_xaxes(
        title_text=f"{_title(first)} minus {second.name}, in % of the value {second.name}",
        ticksuffix=" %",
        range=[-reach, reach],
        zeroline=False,
    )
    figure.update_yaxes(
        tickvals=list(range(len(titles))),
        ticktext=titles,
        range=[len(titles) - 0.5, -0.5],
        showgrid=True,
    )
    return figure_html(
        figure,
        f"Differences between {first.name} and {second.name} by metric and network; filled: beyond "
        "chance",
        120 + 40 * len(titles),
    )


def _part(comparison: Comparison) -> tuple[float, float] | None:
    """A difference and how far its interval reaches, in % of the second half's value."""
    told = comparison.difference
    if told.estimate is None or told.interval is None or not told.second:
        return None
    part = 100 / told.second
    return told.estimate * part, (told.interval.high - told.estimate) * part


def _days(selection: Selection, network: ShownNetwork, daily: Values, hourly: Values) -> Section:
    """A network's days: each metric at peak and off-peak, and by hour."""
    metrics = [metric for metric in SHOWN if metric in daily]
    return Section(
        anchor=f"days-{network.name}",
        title=f"{network.name}: day by day, hour by hour",
        source="As on the first figure",
        caption="On the left each day's value, at peak as a line, off-peak dashed; on the right by "
        "local hour, the darker the higher, white what rests on fewer than five connections or "
        "three users.",
        samples=f"{selection.first_day} to {selection.last_day}",
        hours="peak and off-peak apart",
        figure=Markup().join(
            _trend(network, metrics[n : n + ROWS], daily, hourly)
            for n in range(0, len(metrics), ROWS)
        ),
    )


def _pale(colour: str) -> str:
    """A tenth of a colour on white: what is low is not what is left out."""
    parts = [int(colour[n : n + 2], 16) for n in (1, 3, 5)]
    return "#" + "".join(f"{round(255 - 0.1 * (255 - part)):02x}" for part in parts)


def _trend(network: ShownNetwork, metrics: Sequence[str], daily: Values, hourly: Values) -> Markup:
    plots = subplots(
        [(f"{SHOWN[m].title} [{SHOWN[m].unit.name}]", "by local hour") for m in metrics],
        (0.08, 0.35 / len(metrics)),
        (0.6, 0.4),
    )
    traces: list[dict[str, Any]] = []
    for row, metric in enumerate(metrics):
        for period, dash, name in (("peak", "solid", "peak"), ("off_peak", "dash", "off-peak")):
            points = [(day, value) for part, day, value in daily[metric] if part == period]
            traces.append(
                {
                    "type": "scatter",
                    "x": [day for day, _ in points],
                    "y": [value for _, value in points],
                    "mode": "lines+markers",
                    "name": name,
                    "legendgroup": name,
                    "showlegend": row == 0,
                    "marker": {"size": 4},
                    "line": {"color": network.colour, "dash": dash, "width": 1.8},
                    **plots.axes(row, 0),
                }
            )
        cells = {(hour, day): value for hour, day, value in hourly.get(metric, [])}
        days = sorted({day for _, day in cells})
        traces.append(
            {
                "type": "heatmap",
                "x": days,
                "y": list(range(24)),
                "z": [[cells.get((hour, day)) for day in days] for hour in range(24)],
                "colorscale": [[0, _pale(network.colour)], [1, network.colour]],
                "showscale": False,
                "hovertemplate": "%{x}, %{y} h: %{z:.3g} "
                + SHOWN[metric].unit.name
                + "<extra></extra>",
                **plots.axes(row, 1),
            }
        )
        when = {"type": "date", "tickformat": "%d %b"}
        hours = {"tickvals": [0, 6, 12, 18], "ticktext": ["0 h", "6 h", "12 h", "18 h"]}
        plots.set(row, 0, when, {"rangemode": "tozero"})
        plots.set(row, 1, when, hours)
    return figure_html(
        {"data": traces, "layout": plots.layout},
        f"Metrics of {network.name} by day and by hour",
        80 + 170 * len(metrics),
    )
