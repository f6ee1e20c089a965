"""Stalls by class, and recovery from interruptions by the mobile network.

Sources: Zhou et al., CoNEXT 2015; Wennström, Brunstrom and Rendón on preemption by calls, Table I.
"""

from typing import Any

from spark_jobs.figures.statistics import UNKNOWN, enough
from spark_jobs.report import paper
from spark_jobs.report.hours import Hours, split_by_hours
from spark_jobs.report.page_elements import (
    INTERVALS,
    NOT_MEASURED,
    TOO_FEW,
    NumberTable,
    Section,
    figure_html,
    kilobits,
    log_quantile,
    number,
    percent,
    percent_tenths,
    seconds,
    unless_empty,
)
from spark_jobs.report.samples import column, count_group_bits, interval_text, mean, share
from spark_jobs.report.selection import Selection

STALL_CLASSES = {
    "packet_delay": ("data or ACK late", "#8fb4d9"),
    "ack_delay": ("only ACKs late or lost", "#5c87b3"),
    "continuous_loss": ("all data in flight lost", "#b8543a"),
    "double_retransmission": ("a retransmission lost", "#e69a7a"),
    "small_window": ("too few segments in flight for duplicate ACKs", "#e6c27a"),
    "tail_retransmission": ("too few segments after the loss", "#f2dfb3"),
    "zero_window": ("the mobile's window closed", "#a0a0a0"),
    "client_idle": ("no request from the mobile", "#c4c4c4"),
    "data_unavailable": ("no data at the server", "#e0e0e0"),
}
"""By class of stalls: label and colour; hues: the network's part, greys: the hosts' part."""
INTERRUPTIONS = {
    "pause": "pause (reselection, handover)",
    "flush": "flush (preemption)",
    None: "none",
}


def sections(selection: Selection) -> list[Section]:
    """Return the stalls by class and the interruptions."""
    return [_classes_section(selection), _interruptions_section(selection)]


def _classes_section(selection: Selection) -> Section:
    rows = selection.rows("""
        select network, period, class, sum(stalls)::bigint as stalls, sum(seconds) as seconds,
            sum(rto_stalls)::bigint as rto_expiries,
            sum(stalls) filter (users_at_once > 1)::bigint as shared,
            count(users_at_once) > 0 as has_users_at_once
        from stalls_by_class group by all
    """)
    by_hours = split_by_hours(selection, rows)
    by_class = {hours.name: {row["class"]: row for row in hours.rows} for hours in by_hours}
    totals = {
        name: sum(row["seconds"] for row in members.values()) for name, members in by_class.items()
    }
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "y": list(by_class),
            "x": [
                100 * members[kind]["seconds"] / totals[name]
                if kind in members and totals[name]
                else 0
                for name, members in by_class.items()
            ],
            "name": label,
            "marker": {"color": colour},
            "hovertemplate": "%{y}: %{x:.1f} %<extra>" + label + "</extra>",
        }
        for kind, (label, colour) in STALL_CLASSES.items()
    ]
    section = Section(
        anchor="stalls",
        title="Causes of stalls",
        source="Zhou et al., CoNEXT 2015",
        hours="peak and off-peak separately",
        caption="A stall is a silence of a connection that is longer than two smoothed RTTs or its "
        "RTO. The figure shows the stalled time by cause: hues for causes on the path, greys for "
        "causes at the hosts, which the operator cannot change. Other users at once: the share of "
        "stalls that overlap a stall of another user, as when a radio cell fails. This section has "
        "no confidence intervals.",
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
            170 + 30 * len(by_class),
        ),
        tables=[
            NumberTable(
                [
                    "network",
                    "hours",
                    "cause",
                    "stalls",
                    "stalled time [min]",
                    "share of stalled time",
                    "mean duration",
                    "ended by an RTO expiry",
                    "other users at once",
                ],
                [
                    [hours.network.name, hours.label, label, *_class_cells(row, totals[hours.name])]
                    for hours in by_hours
                    for kind, (label, _) in STALL_CLASSES.items()
                    for row in hours.rows
                    if row["class"] == kind
                ],
            )
        ],
    )
    return unless_empty(section, bool(by_class))


def _class_cells(row: dict[str, Any], total: float) -> list[str]:
    return [
        number(row["stalls"]),
        f"{row['seconds'] / 60:,.1f}",
        percent_tenths(row["seconds"] / total if total else None),
        seconds(row["seconds"] / row["stalls"]),
        percent_tenths(row["rto_expiries"] / row["stalls"]),
        percent_tenths((row["shared"] or 0) / row["stalls"] if row["has_users_at_once"] else None),
    ]


def _interruptions_section(selection: Selection) -> Section:
    rows = selection.rows("""
        select network, period, interruption, ended_by, bin, sum(stalls)::bigint as stalls,
            sum(seconds) as seconds, sum(stalls) filter (slow_start)::bigint as rto_expiries,
            sum(recovery_sum) as recovery, sum(lost)::bigint as lost,
            bit_or(user_groups) as user_groups
        from recovery_by_restart group by all
    """)
    by_hours = split_by_hours(selection, rows)
    interrupted = sum(row["stalls"] for row in rows if row["interruption"])
    without = [
        hours.name for hours in by_hours if not any(row["interruption"] for row in hours.rows)
    ]
    if not interrupted:
        notes = ["No interruption of the link in these networks and days.", paper.RECOVERY]
    elif without:
        notes = [f"No interruption of the link in: {', '.join(without)}.", paper.RECOVERY]
    else:
        notes = [paper.RECOVERY]
    restart_table = _restart_table(by_hours)
    return Section(
        anchor="interruptions",
        title="Interruptions of the link",
        source="Wennström, Brunstrom and Rendón (the study of preemption by calls), Table I",
        hours="peak and off-peak separately",
        caption="Stalls with data in flight during which the mobile sent no packet. Pause: the "
        "data in flight arrived late. Flush: the first data in flight was lost, the rest arrived. "
        "None: all other such stalls. Restarted by: the mobile with an ACK, or the server with "
        "data. Recovered: time from the beginning until all data in flight is acknowledged. These "
        "numbers are counts, without confidence intervals.",
        samples=f"{number(interrupted)} interruptions",
        tables=[*([restart_table] if restart_table.rows else []), _preemption_table(selection)],
        open_tables=True,
        notes=notes,
    )


def _restart_table(by_hours: list[Hours]) -> NumberTable:
    return NumberTable(
        [
            "network",
            "hours",
            "interruption",
            "restarted by",
            "stalls",
            "users, at least",
            "mean duration",
            "then slow start",
            "mean lost packets",
            "recovered: mean",
            "median",
            "90th percentile",
            "never",
        ],
        [
            [hours.network.name, hours.label, name, ended_by, *_restart_cells(members)]
            for hours in by_hours
            for kind, name in INTERRUPTIONS.items()
            for ended_by in ("mobile", "server")
            if (members := _rows_of(hours.rows, kind, ended_by))
        ],
    )


def _rows_of(rows: list[dict[str, Any]], kind: str | None, ended_by: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["interruption"] == kind and row["ended_by"] == ended_by]


def _restart_cells(rows: list[dict[str, Any]]) -> list[str]:
    stalls, users = sum(row["stalls"] for row in rows), count_group_bits(rows)
    never = sum(row["stalls"] for row in rows if row["bin"] is None)
    recovery = sum(row["recovery"] for row in rows)
    quantiles = [seconds(log_quantile(rows, "stalls", q)) for q in (0.5, 0.9)]
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


def _preemption_table(selection: Selection) -> NumberTable:
    """Return throughput, retransmissions and RTT, with the paper's values for preemption."""
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
                sum(fast + rto + slow_start + tlp + unknown)::bigint as retransmitted_packets
            from retransmissions_by_cause group by all order by all
        """),
    )
    rtt_means = split_by_hours(
        selection,
        selection.rows("""
            select network, period, sum(rtt_sum) / sum(rtt_samples) as rtt
            from rtt_by_flight group by all
        """),
    )
    by_value = {
        name: _by_name(by_hours)
        for name, by_hours in (
            ("throughput", throughput),
            ("retransmitted", retransmitted),
            ("rtt", rtt_means),
        )
    }
    names = {
        hours.name: hours
        for by_hours in (retransmitted, throughput, rtt_means)
        for hours in by_hours
    }
    return NumberTable(
        ["network", "hours", "throughput of single transfers", "retransmitted", "mean RTT"],
        [
            *(
                [
                    hours.network.name,
                    hours.label,
                    interval_text(
                        mean(by_value["throughput"][name], "numerator", "denominator", "measured")
                        if name in by_value["throughput"]
                        else UNKNOWN,
                        kilobits,
                        name in by_value["throughput"],
                    ),
                    interval_text(
                        share(
                            by_value["retransmitted"].get(name, []),
                            column("retransmitted_packets"),
                            column("packets"),
                        ),
                        percent,
                        name in by_value["retransmitted"],
                    ),
                    seconds(by_value["rtt"][name][0]["rtt"] if name in by_value["rtt"] else None),
                ]
                for name, hours in names.items()
            ),
            *(
                [
                    f"paper: preempted for {duration} s",
                    *[NOT_MEASURED, kilobits(rate), percent(retransmitted_packets), seconds(rtt)],
                ]
                for duration, (rate, retransmitted_packets, rtt) in paper.PREEMPTED.items()
            ),
        ],
        "Comparison with transfers that calls preempted every minute. " + INTERVALS,
    )


def _by_name(by_hours: list[Hours]) -> dict[str, list[dict[str, Any]]]:
    return {hours.name: hours.rows for hours in by_hours}
