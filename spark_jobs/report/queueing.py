"""How long packets wait for the access link: round trips by data in flight, and each user's longest
(Wennström, Brunstrom and Rendón, Electronics Letters 2004, Figs. 2 to 4; Kohlwes, Riihijärvi and
Mähönen, Section IV.A)."""

from math import exp, log
from typing import Any

from spark_jobs.report import paper
from spark_jobs.report.fig04 import FEW_SAMPLES
from spark_jobs.report.hours import Hours, split_by_hours
from spark_jobs.report.subplots import GRID
from spark_jobs.report.page_elements import (
    INTERVALS,
    NOT_MEASURED,
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
from spark_jobs.report.samples import (
    BINS,
    are_enough,
    distributions,
    of,
    quantile,
    share,
    interval_text,
)
from spark_jobs.report.selection import Selection

LONG_S = (5, 10, 30)
"""Round trips that users notice, and the limits of usual timers."""
SECOND_UNDER_WAY_B = 4096
"""Bytes in flight from which the mobile need not wait for a second segment: if it acknowledged one
alone, the link had not brought the second within the delay of an ACK."""
TICKS_S = [step * 10**power for power in range(-3, 3) for step in (1, 2, 5)]


def sections(selection: Selection) -> list[Section]:
    """Both: of the mart rtt_by_flight, and of users' longest round trips."""
    return [_by_flight(selection), _longest(selection)]


def _by_flight(selection: Selection) -> Section:
    rows = selection.rows(f"""
        select network, period, flight, bin, sum(rtt_samples)::bigint as rtt_samples,
            sum(rtt_sum) as rtt, sum(queueing_sum) as queueing,
            sum(queueing_samples)::bigint as queueing_samples
        from rtt_by_flight where not delayed or flight >= {SECOND_UNDER_WAY_B}
        group by all order by flight
    """)
    by_hours = split_by_hours(selection, rows)
    traces, by_size = [], []
    for hours in by_hours:
        points = [
            (size, sum(row["rtt_samples"] for row in members), _quartiles(members))
            for (size,), members in group(hours.rows, "flight").items()
        ]
        by_size += [
            [hours.network.name, hours.label, number(size), number(count), *map(seconds, quartiles)]
            for size, count, quartiles in points
        ]
        shown = [(size, quartiles) for size, count, quartiles in points if count >= FEW_SAMPLES]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": [size for size, _ in shown],
                "y": [quartiles[1] for _, quartiles in shown],
                "text": [f"{seconds(low)} to {seconds(high)}" for _, (low, _, high) in shown],
                "name": hours.name,
                "marker": {"size": 5},
                "line": {"color": hours.network.colour, "dash": hours.dash, "width": 2},
                "hovertemplate": "from %{x:,} B in flight: %{y:.2f} s, half of them %{text}<extra>"
                + hours.name
                + "</extra>",
            }
        )
    section = Section(
        anchor="rtt-by-flight",
        title="Round trips by data in flight",
        source="Wennström, Brunstrom and Rendón 2004 (the study of GPRS buffers), Figs. 3 and 4",
        hours="peak and off-peak apart",
        caption="Medians of the round trips between Gi and the mobile during transfers, by what "
        "was sent and not acknowledged when the packet passed Gi. A line that rises in proportion "
        "to the data in flight shows a queue that grows with it: a smaller window or buffer would "
        "cost hardly any throughput. It may fall at its end, where losses are repaired: much is in "
        f"flight then and little waits. Below {SECOND_UNDER_WAY_B} B, ACKs that may have been "
        f"delayed are left out. Points rest on {FEW_SAMPLES} round trips or more; these are thinning_notes (ten "
        "a second of a connection at most), so their number tells nothing of the traffic. There "
        "are no intervals here.",
        samples=f"{number(sum(row['rtt_samples'] for row in rows))} round trips",
        figure=figure_html(
            {
                "data": traces,
                "layout": {
                    "xaxis": {
                        "type": "log",
                        "title": {"text": "In flight [B]"},
                        "showgrid": True,
                        "gridcolor": GRID,
                        "exponentformat": "none",
                        "separatethousands": True,
                        "tickvals": [1000 * 2**k for k in range(-4, 16)],
                        "tickangle": 0,
                    },
                    "yaxis": _log_seconds("Median round trip [s]"),
                },
            },
            "Median round trips by data in flight, by network and hours",
            420,
        ),
        tables=[
            NumberTable(
                [
                    "network",
                    "hours",
                    "round trips",
                    "mean",
                    "1st quartile",
                    "median",
                    "3rd quartile",
                    "95th percentile",
                    "mean queueing",
                ],
                [_round_trips(hours) for hours in by_hours],
            )
        ],
        collapsed_tables=[
            NumberTable(
                [
                    "network",
                    "hours",
                    "in flight from [B]",
                    "round trips",
                    "1st quartile",
                    "median",
                    "3rd quartile",
                ],
                by_size,
                "numbers of each point",
            )
        ],
        notes=[paper.ROUND_TRIP_BY_FLIGHT],
    )
    return unless_empty(section, bool(by_hours))


def _log_seconds(title: str) -> dict[str, Any]:
    return {
        "type": "log",
        "title": {"text": title},
        "tickvals": TICKS_S,
        "showgrid": True,
        "gridcolor": GRID,
    }


def _quartiles(rows: list[dict]) -> list[float]:
    return [log_quantile(rows, "rtt_samples", share) or 0.0 for share in (0.25, 0.5, 0.75)]


def _round_trips(hours: Hours) -> list[str]:
    count = sum(row["rtt_samples"] for row in hours.rows)
    known = sum(row["queueing_samples"] for row in hours.rows)
    return [
        hours.network.name,
        hours.label,
        number(count),
        seconds(sum(row["rtt"] for row in hours.rows) / count),
        *map(seconds, _quartiles(hours.rows)),
        seconds(log_quantile(hours.rows, "rtt_samples", 0.95)),
        seconds(sum(row["queueing"] for row in hours.rows) / known if known else None),
    ]


def _longest(selection: Selection) -> Section:
    """A sample is a user in one hour."""
    samples = distributions(selection, "rtt_max", "queue_s")
    longest = [row for row in samples if row["measure"] == "rtt_max"]
    full = {
        (hours.network.name, hours.period): hours.rows
        for hours in split_by_hours(selection, [row for row in samples if row["measure"] == "queue_s"])
    }
    by_hours = split_by_hours(selection, longest)
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            **_above(hours.rows),
            "name": hours.name,
            "line": {"color": hours.network.colour, "dash": hours.dash, "width": 2, "shape": "hv"},
            "hovertemplate": "%{y:.1f} % above %{x:.2f} s<extra>" + hours.name + "</extra>",
        }
        for hours in by_hours
        if are_enough(hours.rows, "samples")
    ]
    section = Section(
        anchor="longest-rtt",
        title="Longest round trip by user",
        source="Wennström, Brunstrom and Rendón 2004 (the study of GPRS buffers), Fig. 2",
        hours="peak and off-peak apart",
        caption="Each user's longest RTT on the access side of an hour: what the buffer lets a "
        "packet wait at worst. A full queue: what a packet waits there, told of the users who lost "
        "enough to tell. A user counts once in each hour. " + INTERVALS,
        samples=f"{number(sum(row['samples'] for row in longest))} users and hours",
        figure=figure_html(
            {
                "data": traces,
                "layout": {
                    "xaxis": _log_seconds("Longest round trip of the hour [s]"),
                    "yaxis": {
                        "title": {"text": "Share of users and hours above"},
                        "ticksuffix": " %",
                        "range": [0, 101],
                        "showgrid": True,
                        "gridcolor": GRID,
                    },
                },
            },
            "Share of users whose longest round trip exceeds a time, by network and hours",
            400,
        ),
        tables=[
            NumberTable(
                ["network", "hours", "users and hours", "median", "90th percentile", "longest"]
                + [f"above {limit} s" for limit in LONG_S]
                + ["full queue, median"],
                [
                    *(
                        _longest_row(hours, full.get((hours.network.name, hours.period), []))
                        for hours in by_hours
                    ),
                    *(
                        [
                            f"paper: buffer of {lifetime} s, {slots} slot{'s' * (slots > 1)}",
                            *["", *[NOT_MEASURED] * 3, seconds(value), *[NOT_MEASURED] * 4],
                        ]
                        for (lifetime, slots), value in paper.LARGEST_ROUND_TRIP.items()
                    ),
                ],
            )
        ],
    )
    return unless_empty(section, bool(by_hours))


def _longest_row(hours: Hours, full: list[dict]) -> list[str]:
    return [
        hours.network.name,
        hours.label,
        number(sum(row["samples"] for row in hours.rows)),
        *(interval_text(quantile(hours.rows, at), seconds) for at in (0.5, 0.9)),
        seconds(exp((max(row["bin"] for row in hours.rows) + 1) / BINS)),
        *(
            interval_text(share(hours.rows, _longer_than(limit), of("samples")), percent_tenths)
            for limit in LONG_S
        ),
        interval_text(quantile(full, 0.5), seconds, bool(full)),
    ]


def _longer_than(limit: float) -> Any:
    """How many of a row of the mart distributions are above a limit (s), those of the bin in which
    it lies in proportion."""
    edge = BINS * log(limit)
    return lambda row: row["samples"] * min(max(row["bin"] + 1 - edge, 0.0), 1.0)


def _above(rows: list[dict]) -> dict[str, list[float]]:
    """Of rows of the mart distributions: times, and the share in % of those above."""
    counts: dict[int, int] = {}
    for row in rows:
        counts[row["bin"]] = counts.get(row["bin"], 0) + row["samples"]
    left = total = sum(counts.values())
    x, y = [exp(min(counts) / BINS)], [100.0]
    for place in sorted(counts):
        left -= counts[place]
        x.append(exp((place + 1) / BINS))
        y.append(100 * left / total)
    return {"x": x, "y": y}
