"""First section of the report: peak against off-peak for each network, and day by day."""

import datetime
import re
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from spark_jobs.figures.format import NOT_MEASURED
from spark_jobs.figures.metrics.compare import (
    OFF_PEAK,
    PEAK,
    Comparison,
    Subset,
    compared_networks,
    comparisons,
    peak_comparisons,
)
from spark_jobs.figures.metrics.forest import Dot, forest_svg
from spark_jobs.figures.metrics.labels import SHOWN_METRICS
from spark_jobs.figures.metrics.numbers import BY_DAY, QUANTILES
from spark_jobs.figures.names import PEAK_HOURS_SQL, PERIODS, access_name, paler
from spark_jobs.figures.page_elements import NumberTable, Section
from spark_jobs.figures.plots import Trace, line, plots_html
from spark_jobs.figures.selection import Selection, ShownNetwork

ROWS = 5
"""Number of metrics in one figure, so that it fits on a sheet of paper."""
CAPTION = (
    "The RTT is that of the handshake. The channel rate is the mean over the measured time. "
    "Throughput and goodput are means over connections and count bytes that arrived at the mobile. "
    "Ranges are 95 % confidence intervals, clustered by user. A full dot marks a difference beyond "
    "chance, with all comparisons on this page taken into account (Holm 1979, 5 % for all "
    "together). 'Perhaps': the difference's own interval excludes zero, but among so many "
    "comparisons this may happen by chance. An arrow: the interval goes on beyond the axis."
)


def sections(selection: Selection) -> list[Section]:
    """Return peak against off-peak, and for several days each network's days and hours."""
    out = [comparison_section(selection, PEAK, OFF_PEAK)]
    if selection.first_day < selection.last_day:
        daily = _values(selection, "period")
        hourly = _values(selection, "hour")
        out += [
            _days(selection, network, daily[network.name], hourly[network.name])
            for network in selection.networks
        ]
    return out


Values = dict[str, list[tuple[Any, str, float]]]
"""By metric: (period or hour, day, value in the shown unit)."""


def _values(selection: Selection, column: str) -> dict[str, Values]:
    """Return each network's metrics by day and by `column` (period or hour).

    Values of too few samples are left out.
    """
    values: dict[str, Values] = {network.name: {} for network in selection.networks}
    for row in BY_DAY.rows(selection, "network", "metric", column, "on_day"):
        network, metric, value = row["network"], row["metric"], row["value"].value
        if network in values and value is not None:
            of_metric = values[network].setdefault(metric, [])
            scaled = SHOWN_METRICS[metric].unit.scale * value
            of_metric.append((row[column], str(row["on_day"]), scaled))
    return values


def comparison_section(selection: Selection, first: Subset, second: Subset) -> Section:
    """Return the comparison of two subsets, metric by metric."""
    is_peak = first is PEAK and second is OFF_PEAK
    results = peak_comparisons(selection) if is_peak else comparisons(selection, first, second)
    shared = ", ".join(part for part in first.parts if part in second.parts)
    notes = [
        f"{network.name}: not compared, as there are too few connections or none {first.name} or "
        f"{second.name}."
        for network in compared_networks(selection.networks, first, second)
        if not any(c.network is network and c.difference.estimate is not None for c in results)
    ]
    return Section(
        anchor="compare",
        title=f"{_title(first)} against {_plain(second)}",
        source=_hours_text(selection) if is_peak else f"two subsets {shared}".strip(),
        caption=CAPTION,
        hours="",
        samples=f"{sum(c.significant for c in results)} of {len(results)} differences are "
        "beyond chance"
        if results
        else "nothing to compare",
        figure=_forest(selection, results, first, second),
        tables=_tables(selection, results, first, second),
        open_tables=True,
        notes=notes,
    )


def _hours_text(selection: Selection) -> str:
    """Return the peak and off-peak hours of the networks' last days in words."""
    rows = selection.rows(f"""
        select hours, list(network order by network) as networks from (
            select network, arg_max({PEAK_HOURS_SQL}, date) as hours
            from peak_hours group by network
        ) group by hours order by networks
    """)
    texts = [row["hours"] for row in rows]
    if len(rows) > 1:
        texts = [f"{', '.join(row['networks'])}: {row['hours']}" for row in rows]
    return f"{'; '.join(texts)}; local time, on the last day"


def _title(subset: Subset) -> str:
    name = _plain(subset)
    return name[:1].upper() + name[1:] if subset is PEAK else name


def _plain(subset: Subset) -> str:
    """Return a subset's name without the word that it begins with in a sentence."""
    return re.sub(r"^(at|in|on|over|with) ", "", subset.name)


def _tables(
    selection: Selection, results: list[Comparison], first: Subset, second: Subset
) -> list[NumberTable]:
    headings = ["metric", first.name, second.name, "difference (95 % interval)"]
    quantiles = {}
    if (first, second) == (PEAK, OFF_PEAK):
        headings += [f"{value.label}: {PEAK.name}, off-peak" for value in QUANTILES.ratios]
        quantiles = {
            (row["network"], row["metric"], row["period"]): row
            for row in QUANTILES.rows(selection, "network", "metric", "period")
        }

    def of_hours(c: Comparison, value: str) -> str:
        rows = [quantiles.get((c.network.name, c.metric, p)) for p in ("peak", "off_peak")]
        unit = SHOWN_METRICS[c.metric].unit
        texts = [unit.text(row[value].value if row else None) for row in rows]
        return ", ".join(texts) if any(rows) else NOT_MEASURED

    return [
        NumberTable(
            headings,
            [
                [
                    SHOWN_METRICS[c.metric].title,
                    SHOWN_METRICS[c.metric].unit.text(c.difference.first),
                    SHOWN_METRICS[c.metric].unit.text(c.difference.second),
                    ("● " if c.significant else "") + c.sentence,
                    *(of_hours(c, value.name) for value in QUANTILES.ratios if quantiles),
                ]
                for c in results
                if c.network is network
            ],
            f"{network.name} ({access_name(network.access)})",
        )
        for network in selection.networks
        if any(c.network is network for c in results)
    ]


def _forest(
    selection: Selection, results: list[Comparison], first: Subset, second: Subset
) -> Markup:
    """Return a forest plot of the differences with intervals, in % of the second subset's value."""
    metrics = [*SHOWN_METRICS]
    shown = [(c, *percent) for c in results if (percent := _percent_difference(c))]
    networks = [n for n in selection.networks if any(c.network is n for c, *_ in shown)]
    if not networks:
        return Markup()
    dots = [
        Dot(
            metrics.index(c.metric),
            value,
            half_width,
            c.network.colour,
            (networks.index(c.network) - (len(networks) - 1) / 2) * 0.7 / max(len(networks), 2),
            c.significant,
            f"{c.network.name}: {SHOWN_METRICS[c.metric].title}: {c.sentence}",
        )
        for c, value, half_width in shown
    ]
    widest = max(abs(dot.value) for dot in dots)
    return forest_svg(
        [metric.title for metric in SHOWN_METRICS.values()],
        [(network.name, network.colour) for network in networks],
        dots,
        min(max(1.6 * widest, 10.0), 200.0),
        f"{_title(first)} minus {second.name}, in % of the value {second.name}",
        f"Differences between {first.name} and {second.name} by metric and network; filled: beyond "
        "chance",
    )


def _percent_difference(comparison: Comparison) -> tuple[float, float] | None:
    """Return a difference and its interval's half width, in % of the second subset's value."""
    difference = comparison.difference
    estimate, interval = difference.estimate, difference.interval
    if estimate is None or interval is None or not difference.second:
        return None
    percent = 100 / difference.second
    return estimate * percent, (interval.high - estimate) * percent


def _days(selection: Selection, network: ShownNetwork, daily: Values, hourly: Values) -> Section:
    """Return a network's metrics by day, at peak, off-peak and by local hour."""
    metrics = [metric for metric in SHOWN_METRICS if metric in daily]
    count = (selection.last_day - selection.first_day).days + 1
    days = [str(selection.first_day + datetime.timedelta(days=n)) for n in range(count)]
    return Section(
        anchor=f"days-{network.name}",
        title=f"{network.name}: day by day, hour by hour",
        source="as in the first figure",
        caption="Left: the value of each day, at peak (solid) and off-peak (dashed), or of all "
        "hours if the day has no peak hours (long dashes). Right: the value by local hour; darker "
        "is higher. Gaps and white: no data, or fewer than five connections, three users, or three "
        "effective users of a mean.",
        samples=f"{selection.first_day} to {selection.last_day}",
        hours="peak and off-peak separately",
        figure=Markup().join(
            _trend(network, metrics[n : n + ROWS], days, daily, hourly)
            for n in range(0, len(metrics), ROWS)
        ),
    )


def _trend(
    network: ShownNetwork,
    metrics: Sequence[str],
    days: Sequence[str],
    daily: Values,
    hourly: Values,
) -> Markup:
    """Return plots of some metrics; a day without a value is a gap."""
    traces: list[tuple[int, int, Trace]] = []
    for row, metric in enumerate(metrics):
        for period, (name, dash) in PERIODS.items():
            by_day = {day: value for time, day, value in daily[metric] if time == period}
            if period == "other" or not by_day:
                continue
            values = [by_day.get(day) for day in days]
            drawn = line(name, network.colour, days, values, "%{x}: %{y:.3g}", dash)
            traces.append((row, 0, drawn | {"mode": "lines+markers", "marker": {"size": 4}}))
        values_at = {(hour, day): value for hour, day, value in hourly.get(metric, [])}
        heat_map = {
            "type": "heatmap",
            "x": days,
            "y": list(range(24)),
            "z": [[values_at.get((hour, day)) for day in days] for hour in range(24)],
            "colorscale": [[0, paler(network.colour, 0.9)], [1, network.colour]],
            "showscale": False,
            "hovertemplate": "%{x}, %{y} h: %{z:.3g} "
            + SHOWN_METRICS[metric].unit.name
            + "<extra></extra>",
        }
        traces.append((row, 1, heat_map))
    hour_axis = {"tickvals": [0, 6, 12, 18], "ticktext": ["0 h", "6 h", "12 h", "18 h"]}
    return plots_html(
        [[SHOWN_METRICS[m].axis_title, "by local hour"] for m in metrics],
        traces,
        {"type": "date", "tickformat": "%d %b"},
        [{"rangemode": "tozero"}, hour_axis],
        f"Metrics of {network.name} by day and by hour",
        120,
        gap=0.08,
        widths=(0.6, 0.4),
    )
