"""What servers retransmitted and why, and their retransmission timeouts, by TCP options (Rendón,
Casadevall and Faner, Table 2 and Figs. 4 and 5; Kohlwes, Riihijärvi and Mähönen, Fig. 2)."""

from collections.abc import Callable, Sequence
from typing import Any

from markupsafe import Markup

from spark_jobs.estimators.by_user import FEWEST_SAMPLES, FEWEST_USERS, enough
from spark_jobs.report import paper
from spark_jobs.report.hours import Grid, Hours, split_by_hours
from spark_jobs.report.subplots import GRID
from spark_jobs.report.page_elements import (
    INTERVALS,
    NOT_MEASURED,
    TOO_FEW,
    Section,
    NumberTable,
    figure_html,
    group,
    log_quantile,
    number,
    unless_empty,
    seconds,
    percent_tenths,
)
from spark_jobs.report.samples import of, share, users, count_group_bits, interval_text
from spark_jobs.report.selection import Selection

PAIRS = {
    (False, False): "neither",
    (True, False): "SACK",
    (False, True): "timestamps",
    (True, True): "both",
}
"""SACK and timestamps; connections of which one is not known are left out."""
BY_DATA, BY_TIMER = ("fast",), ("rto", "slow_start", "tlp")
KINDS = {
    "data_needed": ("data-driven", "#8fb4d9", ""),
    "data_spurious": ("data-driven, needless", "#8fb4d9", "/"),
    "timer_needed": ("timer-driven", "#e69a7a", ""),
    "timer_spurious": ("timer-driven, needless", "#e69a7a", "/"),
}
"""How retransmissions are called and figure_html."""
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


def sections(selection: Selection) -> list[Section]:
    """Both: of the mart retransmissions_by_cause, and of the mart rto_by_options."""
    return [_retransmissions(selection), _timeouts(selection)]


def _retransmissions(selection: Selection) -> Section:
    def total(causes: Sequence[str], suffix: str = "") -> str:
        return "sum(" + " + ".join(f"{cause}{suffix}" for cause in causes) + ")::bigint"

    every = (*BY_DATA, *BY_TIMER, "unknown")
    rows = selection.rows(f"""
        select network, period, sack, timestamps, user_group,
            sum(data_packets)::bigint as packets,
            {total(BY_DATA)} as data, {total(BY_DATA, "_spurious")} as data_spurious,
            {total(BY_TIMER)} as timer, {total(BY_TIMER, "_spurious")} as timer_spurious,
            {total(every)} as again, {total(every, "_spurious")} as needless,
            {total(every)} - {total(every, "_undecided")} as decided,
            sum(rto_expiries)::bigint as rto_expiries, sum(rto)::bigint as rto,
            sum(spurious_rto_expiries)::bigint as spurious
        from retransmissions_by_cause where sack is not null and timestamps is not null
        group by all having sum(data_packets) > 0 order by all
    """)
    by_hours = split_by_hours(selection, rows)
    packets = sum(row["packets"] for row in rows)
    section = Section(
        anchor="retransmissions",
        title="Retransmissions by cause and TCP options",
        source="Rendón, Casadevall and Faner (the study of TCP options), Table 2; the UMTS study",
        hours="peak and off-peak apart",
        caption="Data packets that the servers retransmitted, of the data packets seen at Gi. "
        "Data-driven: on duplicate ACKs or SACK blocks. Timer-driven: because the timer went off, "
        "with what was retransmitted in the slow start after it, or as a loss probe. Needless "
        "(hatched): the data had arrived; of those of which that is known. Timeouts too soon: of "
        "those whose retransmission Gi saw, by F-RTO, Eifel or D-SACK. " + INTERVALS,
        samples=f"{number(packets)} data packets",
        figure=_by_cause(by_hours),
        tables=[
            NumberTable(
                [
                    "network",
                    "hours",
                    "options",
                    "data packets",
                    "data-driven",
                    "timer-driven",
                    "needless, of retransmissions",
                    "timeouts of 1000",
                    "too soon, of timeouts",
                ],
                [
                    *(
                        [hours.network.name, hours.label, name, *_retransmitted(members)]
                        for hours in by_hours
                        for name, members in _by_pair(hours.rows).items()
                    ),
                    *(
                        [
                            "paper: GPRS, simulated",
                            "",
                            name,
                            NOT_MEASURED,
                            *map(percent_tenths, told),
                            *([NOT_MEASURED] * 3),
                        ]
                        for name, told in paper.RETRANSMISSIONS.items()
                    ),
                ],
            )
        ],
        notes=[paper.SPURIOUS],
    )
    return unless_empty(section, bool(by_hours))


def _by_pair(rows: list[dict]) -> dict[str, list[dict]]:
    groups = group(rows, "sack", "timestamps")
    return {name: groups[pair] for pair, name in PAIRS.items() if pair in groups}


def _retransmitted(rows: list[dict]) -> list[str]:
    """The table's numbers of a pair of options."""
    packets = sum(row["packets"] for row in rows)
    spurious = share(rows, of("spurious"), of("rto"))
    return [
        number(packets),
        *(
            interval_text(share(rows, of(kind), of("packets")), percent_tenths)
            for kind in ("data", "timer")
        ),
        interval_text(share(rows, of("spurious"), of("decided")), percent_tenths),
        f"{1000 * sum(row['rto_expiries'] for row in rows) / packets:.1f}",
        interval_text(spurious, percent_tenths, any(row["rto"] for row in rows)),
    ]


def _by_cause(by_hours: list[Hours]) -> Markup:
    def traces(hours: Hours, place: dict[str, str], first: bool) -> list[dict[str, Any]]:
        told = {
            name: members
            for name, members in _by_pair(hours.rows).items()
            if enough(sum(row["packets"] for row in members), users(members))
        }
        sums = {
            name: {c: sum(row[c] for row in members) for c in ("packets", "data", "timer")}
            | {f"{c}_spurious": sum(row[f"{c}_spurious"] for row in members) for c in CAUSED}
            for name, members in told.items()
        }
        return [
            {
                "type": "bar",
                "orientation": "h",
                "y": list(sums),
                "x": [100 * _part(of_pair, kind) / of_pair["packets"] for of_pair in sums.values()],
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
    return _by_network(
        by_hours, traces, axis, "Retransmissions by cause, network, hours and TCP options"
    )


CAUSED = ("data", "timer")


def _part(sums: dict[str, int], kind: str) -> int:
    cause, _, needed = kind.partition("_")
    needless = sums[f"{cause}_spurious"]
    return needless if needed == "spurious" else sums[cause] - needless


Traces = Callable[[Hours, dict[str, str], bool], list[dict[str, Any]]]


def _by_network(by_hours: list[Hours], traces: Traces, x: dict[str, Any], label: str) -> Markup:
    """A plot for each network and its hours, a row for each pair of options."""
    if not by_hours:
        return Markup()
    grid = Grid.of(by_hours, 0.1)
    made = [
        trace
        for n, hours in enumerate(by_hours)
        for trace in traces(hours, grid.axes(hours), n == 0)
    ]
    grid.set(
        x | {"showgrid": True, "gridcolor": GRID},
        {
            "title": {},
            "type": "category",
            "categoryorder": "array",
            "categoryarray": list(PAIRS.values()),
            "range": [len(PAIRS) - 0.5, -0.5],
            "automargin": True,
        },
    )
    layout = grid.plots.layout | {"barmode": "stack"}
    return figure_html({"data": made, "layout": layout}, label, 130 + 150 * len(grid.names))


def _timeouts(selection: Selection) -> Section:
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
    by_ratio = group(ratios, "network", "period", "sack", "timestamps")
    section = Section(
        anchor="rto",
        title="Retransmission timeouts by TCP options",
        source="Rendón, Casadevall and Faner (the study of TCP options), Figs. 4 and 5",
        hours="peak and off-peak apart",
        caption="The servers' timeouts, replayed from the round trips that they measured, each "
        "weighted with how long it was in effect. The dot is the median, the thick line half of "
        "the time, the thin one four fifths. RTO by RTT: the timeout by the latest round trip; "
        "near one it goes off at the next delay, far above it a loss is long unnoticed. Backed "
        "off: doubled after it went off. There are no intervals here; of fewer than "
        f"{FEWEST_SAMPLES} timeouts or {FEWEST_USERS} users nothing is said.",
        samples=f"{number(sum(row['changes'] for row in rows))} timeouts",
        figure=_spread(by_hours),
        tables=[
            NumberTable(
                [
                    "network",
                    "hours",
                    "options",
                    "rto_expiries",
                    "users, at least",
                    "1st quartile",
                    "median",
                    "3rd quartile",
                    "90th percentile",
                    "RTO by RTT, median",
                    "backed off, of the time",
                ],
                [
                    [hours.network.name, hours.label, name, *_timer(members, of_ratio)]
                    for hours in by_hours
                    for name, members in _by_pair(hours.rows).items()
                    for of_ratio in [
                        by_ratio.get((hours.network.name, hours.period, *_pair(members)), [])
                    ]
                ],
            )
        ],
        notes=[paper.TIMEOUTS],
    )
    return unless_empty(section, bool(by_hours))


def _pair(rows: list[dict]) -> tuple[bool, bool]:
    return rows[0]["sack"], rows[0]["timestamps"]


def _are_told(rows: list[dict]) -> bool:
    return enough(sum(row["changes"] for row in rows), count_group_bits(rows))


def _timer(rows: list[dict], ratios: list[dict]) -> list[str]:
    """The table's numbers of a pair of options."""
    counts = [number(sum(row["changes"] for row in rows)), number(count_group_bits(rows))]
    if not _are_told(rows):
        return [*counts, *[TOO_FEW] * 6]
    ratio = log_quantile(ratios, "seconds", 0.5)
    whole = sum(row["seconds"] for row in rows)
    backed_off = sum(row["backed_off"] or 0 for row in rows)
    return [
        *counts,
        *(seconds(log_quantile(rows, "seconds", at)) for at in QUANTILES[1:]),
        NOT_MEASURED if ratio is None else f"{ratio:.2f}",
        percent_tenths(backed_off / whole if whole else None),
    ]


def _spread(by_hours: list[Hours]) -> Markup:
    def traces(hours: Hours, place: dict[str, str], first: bool) -> list[dict[str, Any]]:
        told = {
            name: [log_quantile(members, "seconds", at) for at in QUANTILES]
            for name, members in _by_pair(hours.rows).items()
            if _are_told(members)
        }
        common = {"type": "scatter", "showlegend": False, **place}
        colour = hours.network.colour
        lines = [
            common
            | {
                "mode": "lines",
                "x": [x for q in told.values() for x in (q[low], q[4 - low], None)],
                "y": [name for pair in told for name in (pair, pair, None)],
                "line": {"color": colour, "width": width},
                "hoverinfo": "skip",
            }
            for low, width in ((0, 1.5), (1, 7))
        ]
        dots = common | {
            "mode": "markers",
            "x": [q[2] for q in told.values()],
            "y": list(told),
            "text": [f"half of the time {seconds(q[1])} to {seconds(q[3])}" for q in told.values()],
            "marker": {"color": "#ffffff", "size": 9, "line": {"color": colour, "width": 2}},
            "hovertemplate": "%{y}: %{x:.2f} s, %{text}<extra>" + hours.name + "</extra>",
        }
        return [*lines, dots]

    axis = {
        "title": {"text": "Timeout [s]"},
        "type": "log",
        "tickvals": [0.2, 0.5, 1, 2, 5, 10, 20, 50, 100],
    }
    return _by_network(by_hours, traces, axis, "Timeouts by network, hours and TCP options")
