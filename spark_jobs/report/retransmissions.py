"""Servers' retransmissions by cause, and their RTO, by TCP options.

Sources: Rendón, Casadevall and Faner, Table 2 and Figs. 4 and 5; Kohlwes, Riihijärvi and Mähönen,
Fig. 2.
"""

from collections.abc import Callable, Sequence
from typing import Any

from markupsafe import Markup

from spark_jobs.figures.statistics import MIN_SAMPLES, MIN_USERS, enough
from spark_jobs.report import paper
from spark_jobs.report.hours import Grid, Hours, split_by_hours
from spark_jobs.report.page_elements import (
    INTERVALS,
    NOT_MEASURED,
    TOO_FEW,
    NumberTable,
    Section,
    figure_html,
    group_rows,
    log_quantile,
    number,
    percent_tenths,
    seconds,
    unless_empty,
)
from spark_jobs.report.samples import (
    column,
    count_group_bits,
    count_user_groups,
    interval_text,
    share,
)
from spark_jobs.report.selection import Selection
from spark_jobs.report.subplots import GRID

OPTION_PAIRS = {
    (False, False): "neither",
    (True, False): "SACK",
    (False, True): "timestamps",
    (True, True): "both",
}
"""By use of (SACK, timestamps); connections with an unknown use are left out."""
DATA_CAUSES, TIMER_CAUSES = ("fast",), ("rto", "slow_start", "tlp")
"""Causes of data-driven and of timer-driven retransmissions."""
KINDS = {
    "data_needed": ("data-driven", "#8fb4d9", ""),
    "data_spurious": ("data-driven, spurious", "#8fb4d9", "/"),
    "timer_needed": ("timer-driven", "#e69a7a", ""),
    "timer_spurious": ("timer-driven, spurious", "#e69a7a", "/"),
}
"""By kind of retransmissions: label, colour and pattern."""
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


def sections(selection: Selection) -> list[Section]:
    """Return the retransmissions by cause, and the RTO."""
    return [_causes_section(selection), _rto_section(selection)]


def _causes_section(selection: Selection) -> Section:
    def sql_sum(causes: Sequence[str], suffix: str = "") -> str:
        return "sum(" + " + ".join(f"{cause}{suffix}" for cause in causes) + ")::bigint"

    all_causes = (*DATA_CAUSES, *TIMER_CAUSES, "unknown")
    rows = selection.rows(f"""
        select network, period, sack, timestamps, user_group,
            sum(data_packets)::bigint as packets,
            {sql_sum(DATA_CAUSES)} as data, {sql_sum(DATA_CAUSES, "_spurious")} as data_spurious,
            {sql_sum(TIMER_CAUSES)} as timer,
            {sql_sum(TIMER_CAUSES, "_spurious")} as timer_spurious,
            {sql_sum(all_causes)} as total, {sql_sum(all_causes, "_spurious")} as total_spurious,
            {sql_sum(all_causes)} - {sql_sum(all_causes, "_undecided")} as decided,
            sum(rto_expiries)::bigint as rto_expiries, sum(rto)::bigint as rto,
            sum(spurious_rto_expiries)::bigint as spurious_rto_expiries
        from retransmissions_by_cause where sack is not null and timestamps is not null
        group by all having sum(data_packets) > 0 order by all
    """)
    by_hours = split_by_hours(selection, rows)
    packets = sum(row["packets"] for row in rows)
    section = Section(
        anchor="retransmissions",
        title="Retransmissions by cause and TCP options",
        source="Rendón, Casadevall and Faner (the study of TCP options), Table 2; the UMTS study",
        hours="peak and off-peak separately",
        caption="Retransmitted data packets, in % of the data packets at Gi. Data-driven: after "
        "duplicate ACKs or SACK blocks. Timer-driven: after an RTO expiry, in the slow start that "
        "follows, or as a loss probe. Spurious (hatched): the data had arrived; the share is of "
        "retransmissions with a known fate. Spurious RTO expiries: detected by F-RTO, Eifel or "
        "D-SACK, in % of the expiries whose retransmission Gi saw. " + INTERVALS,
        samples=f"{number(packets)} data packets",
        figure=_causes_figure(by_hours),
        tables=[
            NumberTable(
                [
                    "network",
                    "hours",
                    "options",
                    "data packets",
                    "data-driven",
                    "timer-driven",
                    "spurious retransmissions",
                    "RTO expiries per 1000 packets",
                    "spurious RTO expiries",
                ],
                [
                    *(
                        [hours.network.name, hours.label, name, *_retransmission_cells(members)]
                        for hours in by_hours
                        for name, members in _by_pair(hours.rows).items()
                    ),
                    *(
                        [
                            "paper: GPRS, simulated",
                            "",
                            name,
                            NOT_MEASURED,
                            *map(percent_tenths, shares),
                            *([NOT_MEASURED] * 3),
                        ]
                        for name, shares in paper.RETRANSMISSIONS.items()
                    ),
                ],
            )
        ],
        notes=[paper.SPURIOUS],
    )
    return unless_empty(section, bool(by_hours))


def _by_pair(rows: list[dict]) -> dict[str, list[dict]]:
    groups = group_rows(rows, "sack", "timestamps")
    return {name: groups[pair] for pair, name in OPTION_PAIRS.items() if pair in groups}


def _retransmission_cells(rows: list[dict]) -> list[str]:
    """Return the table's numbers for a pair of options."""
    packets = sum(row["packets"] for row in rows)
    spurious = share(rows, column("spurious_rto_expiries"), column("rto"))
    return [
        number(packets),
        *(
            interval_text(share(rows, column(kind), column("packets")), percent_tenths)
            for kind in ("data", "timer")
        ),
        interval_text(share(rows, column("total_spurious"), column("decided")), percent_tenths),
        f"{1000 * sum(row['rto_expiries'] for row in rows) / packets:.1f}",
        interval_text(spurious, percent_tenths, any(row["rto"] for row in rows)),
    ]


def _causes_figure(by_hours: list[Hours]) -> Markup:
    def make_traces(hours: Hours, place: dict[str, str], first: bool) -> list[dict[str, Any]]:
        shown = {
            name: members
            for name, members in _by_pair(hours.rows).items()
            if enough(sum(row["packets"] for row in members), count_user_groups(members))
        }
        sums = {
            name: {c: sum(row[c] for row in members) for c in ("packets", "data", "timer")}
            | {f"{c}_spurious": sum(row[f"{c}_spurious"] for row in members) for c in CAUSE_CLASSES}
            for name, members in shown.items()
        }
        return [
            {
                "type": "bar",
                "orientation": "h",
                "y": list(sums),
                "x": [
                    100 * _count(of_pair, kind) / of_pair["packets"] for of_pair in sums.values()
                ],
                "name": label,
                "legendgroup": label,
                "showlegend": first,
                "marker": {"color": colour, "pattern": {"shape": hatch, "fgcolor": "#ffffff"}},
                "hovertemplate": "%{y}: %{x:.2f} %<extra>" + label + "</extra>",
                **place,
            }
            for kind, (label, colour, hatch) in KINDS.items()
        ]

    axis = {"title": {"text": "Share of the data packets [%]"}, "rangemode": "tozero"}
    return _grid_figure(
        by_hours, make_traces, axis, "Retransmissions by cause, network, hours and TCP options"
    )


CAUSE_CLASSES = ("data", "timer")


def _count(sums: dict[str, int], kind: str) -> int:
    cause, _, need = kind.partition("_")
    spurious = sums[f"{cause}_spurious"]
    return spurious if need == "spurious" else sums[cause] - spurious


MakeTraces = Callable[[Hours, dict[str, str], bool], list[dict[str, Any]]]


def _grid_figure(
    by_hours: list[Hours], make_traces: MakeTraces, x: dict[str, Any], label: str
) -> Markup:
    """Return a plot for each network and period, with a row for each pair of options."""
    if not by_hours:
        return Markup()
    grid = Grid.of_hours(by_hours, 0.1)
    traces = [
        trace
        for n, hours in enumerate(by_hours)
        for trace in make_traces(hours, grid.axes(hours), n == 0)
    ]
    grid.set_axes(
        x | {"showgrid": True, "gridcolor": GRID},
        {
            "title": {},
            "type": "category",
            "categoryorder": "array",
            "categoryarray": list(OPTION_PAIRS.values()),
            "range": [len(OPTION_PAIRS) - 0.5, -0.5],
            "automargin": True,
        },
    )
    layout = grid.plots.layout | {"barmode": "stack"}
    return figure_html({"data": traces, "layout": layout}, label, 130 + 150 * len(grid.names))


def _rto_section(selection: Selection) -> Section:
    keys = "network, period, sack, timestamps"
    known = "sack is not null and timestamps is not null"
    rows = selection.rows(f"""
        select {keys}, bin, sum(changes)::bigint as changes, sum(seconds) as seconds,
            sum(seconds) filter (backed_off) as backed_off, bit_or(user_groups) as user_groups
        from rto_by_options where measure = 'rto' and {known} group by all order by all
    """)
    ratios = selection.rows(f"""
        select {keys}, bin, sum(seconds) as seconds
        from rto_by_options where measure = 'rto_by_rtt' and {known} group by all order by all
    """)
    by_hours = split_by_hours(selection, rows)
    by_ratio = group_rows(ratios, "network", "period", "sack", "timestamps")
    section = Section(
        anchor="rto",
        title="RTO by TCP options",
        source="Rendón, Casadevall and Faner (the study of TCP options), Figs. 4 and 5",
        hours="peak and off-peak separately",
        caption="The servers' RTO, computed from the RTTs that they measured, weighted by the time "
        "for which each value was in effect. Dot: median. Thick line: half of the time. Thin line: "
        "four fifths of the time. RTO / RTT: the RTO over the latest RTT. Near 1, the timer "
        "expires at the next delay; far above 1, a loss remains undetected for long. Backed off: "
        "doubled after an expiry. This section has no confidence intervals. "
        f"{TOO_FEW.capitalize()}: fewer than {MIN_SAMPLES} RTO values or {MIN_USERS} users.",
        samples=f"{number(sum(row['changes'] for row in rows))} RTO values",
        figure=_rto_figure(by_hours),
        tables=[
            NumberTable(
                [
                    "network",
                    "hours",
                    "options",
                    "RTO values",
                    "users, at least",
                    "1st quartile",
                    "median",
                    "3rd quartile",
                    "90th percentile",
                    "median RTO / RTT",
                    "share of time backed off",
                ],
                [
                    [hours.network.name, hours.label, name, *_rto_cells(members, of_ratio)]
                    for hours in by_hours
                    for name, members in _by_pair(hours.rows).items()
                    for of_ratio in [
                        by_ratio.get((hours.network.name, hours.period, *_pair(members)), [])
                    ]
                ],
            )
        ],
        notes=[paper.RTO],
    )
    return unless_empty(section, bool(by_hours))


def _pair(rows: list[dict]) -> tuple[bool, bool]:
    return rows[0]["sack"], rows[0]["timestamps"]


def _are_enough(rows: list[dict]) -> bool:
    return enough(sum(row["changes"] for row in rows), count_group_bits(rows))


def _rto_cells(rows: list[dict], ratios: list[dict]) -> list[str]:
    """Return the table's numbers for a pair of options."""
    counts = [number(sum(row["changes"] for row in rows)), number(count_group_bits(rows))]
    if not _are_enough(rows):
        return [*counts, *[TOO_FEW] * 6]
    ratio = log_quantile(ratios, "seconds", 0.5)
    seconds_total = sum(row["seconds"] for row in rows)
    backed_off = sum(row["backed_off"] or 0 for row in rows)
    return [
        *counts,
        *(seconds(log_quantile(rows, "seconds", q)) for q in QUANTILES[1:]),
        NOT_MEASURED if ratio is None else f"{ratio:.2f}",
        percent_tenths(backed_off / seconds_total if seconds_total else None),
    ]


def _rto_figure(by_hours: list[Hours]) -> Markup:
    def make_traces(hours: Hours, place: dict[str, str], first: bool) -> list[dict[str, Any]]:
        shown = {
            name: [log_quantile(members, "seconds", q) for q in QUANTILES]
            for name, members in _by_pair(hours.rows).items()
            if _are_enough(members)
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
                f"half of the time {seconds(q[1])} to {seconds(q[3])}" for q in shown.values()
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
    return _grid_figure(by_hours, make_traces, axis, "RTO by network, hours and TCP options")
