"""What connections stalled for, and how they recovered where the mobile network interrupted the
link (Zhou et al., CoNEXT 2015; Wennström, Brunstrom and Rendón on preemption by calls, Table I)."""

from typing import Any

from spark_jobs.estimators.by_user import UNKNOWN, enough
from spark_jobs.report import paper
from spark_jobs.report.hours import Hours, split_by_hours
from spark_jobs.report.page_elements import (
    INTERVALS,
    NOT_MEASURED,
    TOO_FEW,
    Section,
    NumberTable,
    figure_html,
    kilobits,
    log_quantile,
    number,
    unless_empty,
    percent,
    seconds,
    percent_tenths,
)
from spark_jobs.report.samples import mean, of, share, count_group_bits, interval_text
from spark_jobs.report.selection import Selection

CLASSES = {
    "packet_delay": ("data or ACK came late", "#8fb4d9"),
    "ack_delay": ("retransmitted, only ACKs were late or lost", "#5c87b3"),
    "continuous_loss": ("all in flight lost", "#b8543a"),
    "double_retransmission": ("a retransmission lost", "#e69a7a"),
    "small_window": ("too few in flight for duplicate ACKs", "#e6c27a"),
    "tail_retransmission": ("too few behind the loss", "#f2dfb3"),
    "zero_window": ("the mobile's window closed", "#a0a0a0"),
    "client_idle": ("the mobile asked for nothing", "#c4c4c4"),
    "data_unavailable": ("the server had nothing", "#e0e0e0"),
}
"""In words, and their colours: the network's in hues, the hosts' in greys."""
INTERRUPTIONS = {
    "pause": "pause (reselection, handover)",
    "flush": "flush (preemption)",
    None: "none shows",
}


def sections(selection: Selection) -> list[Section]:
    """Both: of the mart stalls_by_class, and of the mart recovery_by_restart."""
    return [_by_class(selection), _interruptions(selection)]


def _by_class(selection: Selection) -> Section:
    rows = selection.rows("""
        select network, period, class, sum(stalls)::bigint as stalls, sum(seconds) as seconds,
            sum(rto_stalls)::bigint as rto_expiries,
            sum(stalls) filter (users_at_once > 1)::bigint as shared,
            count(users_at_once) > 0 as of_path
        from stalls_by_class group by all
    """)
    by_hours = split_by_hours(selection, rows)
    found = {hours.name: {row["class"]: row for row in hours.rows} for hours in by_hours}
    totals = {name: sum(row["seconds"] for row in mine.values()) for name, mine in found.items()}
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "y": list(found),
            "x": [
                100 * mine[kind]["seconds"] / totals[name] if kind in mine and totals[name] else 0
                for name, mine in found.items()
            ],
            "name": label,
            "marker": {"color": colour},
            "hovertemplate": "%{y}: %{x:.1f} %<extra>" + label + "</extra>",
        }
        for kind, (label, colour) in CLASSES.items()
    ]
    section = Section(
        anchor="stalls",
        title="What connections stalled for",
        source="Zhou et al., CoNEXT 2015",
        hours="peak and off-peak apart",
        caption="Silences of a connection longer than two round trips or its timeout, by what they "
        "were for, and how long they lasted in all: in hues by the path's doing, in greys by the "
        "hosts', which no operator can change. Others at once: so many of them overlap a stall of "
        "another user, as when a cell fails. There are no intervals here.",
        samples=f"{number(sum(row['stalls'] for row in rows))} stalls",
        figure=figure_html(
            {
                "data": traces,
                "layout": {
                    "barmode": "stack",
                    "xaxis": {
                        "title": {"text": "Share of the stalled time [%]"},
                        "range": [0, 100],
                    },
                    "yaxis": {"autorange": "reversed", "automargin": True},
                },
            },
            "Shares of the stalled time by class, network and hours",
            170 + 30 * len(found),
        ),
        tables=[
            NumberTable(
                [
                    "network",
                    "hours",
                    "class",
                    "stalls",
                    "minutes of stall",
                    "of the time",
                    "mean",
                    "ended by a timeout",
                    "others at once",
                ],
                [
                    [hours.network.name, hours.label, label, *_class(row, totals[hours.name])]
                    for hours in by_hours
                    for kind, (label, _) in CLASSES.items()
                    for row in hours.rows
                    if row["class"] == kind
                ],
            )
        ],
    )
    return unless_empty(section, bool(found))


def _class(row: dict[str, Any], total: float) -> list[str]:
    return [
        number(row["stalls"]),
        f"{row['seconds'] / 60:,.1f}",
        percent_tenths(row["seconds"] / total if total else None),
        seconds(row["seconds"] / row["stalls"]),
        percent_tenths(row["rto_expiries"] / row["stalls"]),
        percent_tenths((row["shared"] or 0) / row["stalls"] if row["of_path"] else None),
    ]


def _interruptions(selection: Selection) -> Section:
    rows = selection.rows("""
        select network, period, interruption, ended_by, bin, sum(stalls)::bigint as stalls,
            sum(seconds) as seconds, sum(stalls) filter (slow_start)::bigint as rto_expiries,
            sum(recovery_sum) as recovery, sum(lost)::bigint as lost,
            bit_or(user_groups) as user_groups
        from recovery_by_restart group by all
    """)
    by_hours = split_by_hours(selection, rows)
    interrupted = sum(row["stalls"] for row in rows if row["interruption"])
    none = [hours.name for hours in by_hours if not any(row["interruption"] for row in hours.rows)]
    if not interrupted:
        notes = ["No interruption of the link shows in these networks and days.", paper.RECOVERY]
    elif none:
        notes = [f"No interruption of the link shows in: {', '.join(none)}.", paper.RECOVERY]
    else:
        notes = [paper.RECOVERY]
    restarts = _restarts(by_hours)
    return Section(
        anchor="interruptions",
        title="Interruptions of the link, and who restarted the transfer",
        source="Wennström, Brunstrom and Rendón (the study of preemption by calls), Table I",
        hours="peak and off-peak apart",
        caption="Stalls with data in flight during which nothing at all came from the mobile: a "
        "pause, where what was in flight came late, or a flush, where its head was lost and the "
        "rest came; beside them all other such stalls. Who restarted: the mobile by an ACK, or the "
        "server by sending. Recovered: from the beginning until all that was in flight is "
        "acknowledged. These numbers are counts, without intervals.",
        samples=f"{number(interrupted)} interruptions",
        tables=[*([restarts] if restarts.rows else []), _beside_calls(selection)],
        open_tables=True,
        notes=notes,
    )


def _restarts(by_hours: list[Hours]) -> NumberTable:
    return NumberTable(
        [
            "network",
            "hours",
            "interruption",
            "restarted by",
            "stalls",
            "users, at least",
            "mean silence",
            "then slow start",
            "lost, mean",
            "recovered: mean",
            "median",
            "90th percentile",
            "never",
        ],
        [
            [hours.network.name, hours.label, name, ended_by, *_restart(members)]
            for hours in by_hours
            for kind, name in INTERRUPTIONS.items()
            for ended_by in ("mobile", "server")
            if (members := _ended(hours.rows, kind, ended_by))
        ],
    )


def _ended(rows: list[dict[str, Any]], kind: str | None, ended_by: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["interruption"] == kind and row["ended_by"] == ended_by]


def _restart(rows: list[dict[str, Any]]) -> list[str]:
    stalls, users = sum(row["stalls"] for row in rows), count_group_bits(rows)
    never = sum(row["stalls"] for row in rows if row["bin"] is None)
    recovery = sum(row["recovery"] for row in rows)
    quantiles = [seconds(log_quantile(rows, "stalls", at)) for at in (0.5, 0.9)]
    return [
        number(stalls),
        number(users),
        seconds(sum(row["seconds"] for row in rows) / stalls),
        percent_tenths(sum(row["rto_expiries"] or 0 for row in rows) / stalls),
        f"{sum(row['lost'] for row in rows) / stalls:.1f}",
        seconds(recovery / (stalls - never) if stalls > never else None),
        *(quantiles if enough(stalls - never, users) else [TOO_FEW] * len(quantiles)),
        number(never),
    ]


def _beside_calls(selection: Selection) -> NumberTable:
    """Throughput, retransmissions and round trips beside those of the preempted transfers."""
    throughput = split_by_hours(
        selection,
        selection.rows("""
            select network, period, user_group, sum(measured)::bigint as measured,
                sum(numerator) as numerator, sum(denominator) as denominator
            from metrics where metric = 'throughput' group by all order by all
        """),
    )
    retransmitted = split_by_hours(
        selection,
        selection.rows("""
            select network, period, user_group, sum(data_packets)::bigint as packets,
                sum(fast + rto + slow_start + tlp + unknown)::bigint as again
            from retransmissions_by_cause group by all order by all
        """),
    )
    trips = split_by_hours(
        selection,
        selection.rows("""
            select network, period, sum(rtt_sum) / sum(rtt_samples) as rtt
            from rtt_by_flight group by all
        """),
    )
    found = {name: _by_name(part) for name, part in
             (("throughput", throughput), ("retransmitted", retransmitted), ("rtt", trips))}  # fmt: skip
    names = {hours.name: hours for part in (retransmitted, throughput, trips) for hours in part}
    return NumberTable(
        ["network", "hours", "throughput of single transfers", "retransmitted", "mean round trip"],
        [
            *(
                [
                    hours.network.name,
                    hours.label,
                    interval_text(
                        mean(found["throughput"][name], "numerator", "denominator", "measured")
                        if name in found["throughput"]
                        else UNKNOWN,
                        kilobits,
                        name in found["throughput"],
                    ),
                    interval_text(
                        share(found["retransmitted"].get(name, []), of("again"), of("packets")),
                        percent,
                        name in found["retransmitted"],
                    ),
                    seconds(found["rtt"][name][0]["rtt"] if name in found["rtt"] else None),
                ]
                for name, hours in names.items()
            ),
            *(
                [
                    f"paper: preempted for {lasting} s",
                    *[NOT_MEASURED, kilobits(rate), percent(again), seconds(rtt)],
                ]
                for lasting, (rate, again, rtt) in paper.PREEMPTED.items()
            ),
        ],
        "Beside transfers that calls preempted every minute. " + INTERVALS,
    )


def _by_name(part: list[Hours]) -> dict[str, list[dict[str, Any]]]:
    return {hours.name: hours.rows for hours in part}
