"""The servers' RTO by TCP options.

Sources: Rendón, Casadevall and Faner, Figs. 4 and 5; Kohlwes, Riihijärvi and Mähönen, Fig. 2.
"""

from typing import Any

from markupsafe import Markup

from spark_jobs.figures.format import NOT_MEASURED, SECONDS, TOO_FEW, count
from spark_jobs.figures.hours import Hours, split_by_hours
from spark_jobs.figures.numbers import Row
from spark_jobs.figures.option_pairs import PAIR, PAIRS, grid_figure
from spark_jobs.figures.page_elements import (
    NumberTable,
    Section,
    group_rows,
    log_quantile,
    unless_empty,
)
from spark_jobs.figures.rto_by_options.numbers import NUMBERS, RATIOS, RTOS
from spark_jobs.figures.samples import USERS_NOTE
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.statistics import MIN_SAMPLES, MIN_USERS

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
PAPER = (
    "The study of options (Figs. 4 and 5, Section IV.3; simulated servers): with timestamps the "
    "RTO varies between 20 and 120 s, even 200 s, ten times its minimum, and expires spuriously. "
    "If this network behaves alike, the quartiles lie further apart with timestamps than without. "
    "The UMTS study (Fig. 2): handovers change the RTO."
)


def sections(selection: Selection) -> list[Section]:
    """Return the RTO by TCP options."""
    rows = selection.rows(f"""
        select network, period, {PAIR} as options, bin, sum(changes)::bigint as changes,
            sum(seconds) as seconds
        from rto_by_options where {RTOS} group by all order by all
    """)
    numbers = {
        (row["network"], row["period"], row["options"]): row
        for row in NUMBERS.rows(selection, "network", "period", "options")
    }
    ratios = selection.rows(f"""
        select network, period, {PAIR} as options, bin, sum(seconds) as seconds
        from rto_by_options where {RATIOS} group by all order by all
    """)
    by_hours = split_by_hours(selection, rows)
    by_ratio = group_rows(ratios, "network", "period", "options")
    section = Section(
        anchor="rto",
        title="RTO by TCP options",
        source="Rendón, Casadevall and Faner (the study of TCP options), Figs. 4 and 5",
        hours="peak and off-peak separately",
        caption="The servers' RTO, computed from the RTTs that they measured, weighted by the time "
        "for which each value was in effect. Dot: median. Thick line: half of the time. Thin line: "
        "four fifths of the time. RTO / RTT: the RTO over the latest RTT. Near 1, the timer "
        "expires at the next delay; far above 1, a loss remains undetected for long. Backed off: "
        "doubled after an expiry. "
        f"{TOO_FEW.capitalize()}: fewer than {MIN_SAMPLES} RTO values or {MIN_USERS} users. "
        + USERS_NOTE,
        samples=f"{count(sum(row['changes'] for row in rows))} RTO values",
        figure=_rto_figure(by_hours, numbers),
        tables=[
            NumberTable(
                [
                    "network",
                    "hours",
                    "options",
                    "RTO values",
                    "users",
                    "1st quartile",
                    "median",
                    "3rd quartile",
                    "90th percentile",
                    "median RTO / RTT",
                    "share of time backed off",
                ],
                [
                    [
                        hours.network.name,
                        hours.label,
                        pair,
                        *_rto_cells(members, by_ratio.get(key, []), numbers[key]),
                    ]
                    for hours in by_hours
                    for pair, members in _by_pair(hours).items()
                    for key in [(hours.network.name, hours.period, pair)]
                ],
            )
        ],
        notes=[PAPER],
    )
    return [unless_empty(section, bool(by_hours))]


def _by_pair(hours: Hours) -> dict[str, list[dict[str, Any]]]:
    groups = group_rows(hours.rows, "options")
    return {pair: groups[pair,] for pair in PAIRS if (pair,) in groups}


def _rto_cells(rows: list[dict], ratios: list[dict], numbers: Row) -> list[str]:
    """Return the table's numbers for a pair of options."""
    counts = [count(numbers["changes"]), count(numbers["users"])]
    if numbers["backed_off"].value is None:
        return [*counts, *[TOO_FEW] * 6]
    ratio = log_quantile(ratios, "seconds", 0.5)
    return [
        *counts,
        *(SECONDS.text(log_quantile(rows, "seconds", q)) for q in QUANTILES[1:]),
        NOT_MEASURED if ratio is None else f"{ratio:.2f}",
        numbers.text("backed_off"),
    ]


def _rto_figure(by_hours: list[Hours], numbers: dict[tuple, Row]) -> Markup:
    def make_traces(hours: Hours, place: dict[str, str], first: bool) -> list[dict[str, Any]]:
        shown = {
            name: [log_quantile(members, "seconds", q) for q in QUANTILES]
            for name, members in _by_pair(hours).items()
            if numbers[hours.network.name, hours.period, name]["backed_off"].value is not None
        }
        common = {"type": "scatter", "showlegend": False, **place}
        colour = hours.network.colour
        lines = [
            common
            | {
                "mode": "lines",
                "x": [x for q in shown.values() for x in (q[low], q[4 - low], None)],
                "y": [name for pair in shown for name in (pair, pair, None)],
                "line": {"color": colour, "width": width},
                "hoverinfo": "skip",
            }
            for low, width in ((0, 1.5), (1, 7))
        ]
        dots = common | {
            "mode": "markers",
            "x": [q[2] for q in shown.values()],
            "y": list(shown),
            "text": [
                f"half of the time {SECONDS.text(q[1])} to {SECONDS.text(q[3])}"
                for q in shown.values()
            ],
            "marker": {"color": "#ffffff", "size": 9, "line": {"color": colour, "width": 2}},
            "hovertemplate": "%{y}: %{x:.2f} s, %{text}<extra>" + hours.name + "</extra>",
        }
        return [*lines, dots]

    axis = {
        "title": {"text": "RTO [s]"},
        "type": "log",
        "tickvals": [0.2, 0.5, 1, 2, 5, 10, 20, 50, 100],
    }
    return grid_figure(by_hours, make_traces, axis, "RTO by network, hours and TCP options")
