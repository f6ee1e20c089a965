"""Queueing at the access link: RTT by bytes in flight, and the largest RTT of each user.

Sources: Wennström, Brunstrom and Rendón, Electronics Letters 2004, Figs. 2 to 4; Kohlwes,
Riihijärvi and Mähönen, Section IV.A.
"""

from math import exp, log
from typing import Any

from spark_jobs.report import paper
from spark_jobs.report.fig04 import FEW_SAMPLES
from spark_jobs.report.hours import Hours, split_by_hours
from spark_jobs.report.page_elements import (
    INTERVALS,
    NOT_MEASURED,
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
    BINS,
    are_enough,
    column,
    distributions,
    interval_text,
    quantile,
    share,
)
from spark_jobs.report.selection import Selection
from spark_jobs.report.subplots import GRID

LONG_RTT_S = (5, 10, 30)
"""RTTs that users notice and that exceed common timers (s)."""
MIN_FLIGHT_OF_SECOND_B = 4096
"""Bytes in flight (B) from which an ACK of one segment was not delayed by waiting for a second.

With so many bytes in flight, a second segment was on its way. If the mobile acknowledged only one,
the link had not delivered the second within the ACK delay.
"""
TICKS_S = [step * 10**power for power in range(-3, 3) for step in (1, 2, 5)]


def sections(selection: Selection) -> list[Section]:
    """Return the RTT by bytes in flight and the largest RTT of each user."""
    return [_by_flight_section(selection), _largest_section(selection)]


def _by_flight_section(selection: Selection) -> Section:
    rows = selection.rows(f"""
        select network, period, flight, bin, sum(rtt_samples)::bigint as rtt_samples,
            sum(rtt_sum) as rtt, sum(queueing_sum) as queueing,
            sum(queueing_samples)::bigint as queueing_samples
        from rtt_by_flight where not delayed or flight >= {MIN_FLIGHT_OF_SECOND_B}
        group by all order by flight
    """)
    by_hours = split_by_hours(selection, rows)
    traces, rows_by_size = [], []
    for hours in by_hours:
        points = [
            (size, sum(row["rtt_samples"] for row in members), _quartiles(members))
            for (size,), members in group_rows(hours.rows, "flight").items()
        ]
        rows_by_size += [
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
                "hovertemplate": "%{x:,} B or more in flight: %{y:.2f} s, "
                "middle half %{text}<extra>" + hours.name + "</extra>",
            }
        )
    section = Section(
        anchor="rtt-by-flight",
        title="RTT by bytes in flight",
        source="Wennström, Brunstrom and Rendón 2004 (the study of GPRS buffers), Figs. 3 and 4",
        hours="peak and off-peak separately",
        caption="Median RTT on the access side during transfers, by bytes in flight when the "
        "packet passed Gi. If a line rises in proportion to the bytes in flight, a queue grows "
        "with them: a smaller window or buffer would cost hardly any throughput. A line may fall "
        "at its end, during recovery: many bytes are then in flight and few of them wait. Below "
        f"{MIN_FLIGHT_OF_SECOND_B} B, possibly delayed ACKs are left out. A point has at least "
        f"{FEW_SAMPLES} RTT samples. giscope keeps at most ten samples per second of a connection, "
        "so their number does not indicate the amount of traffic. This section has no confidence "
        "intervals.",
        samples=f"{number(sum(row['rtt_samples'] for row in rows))} RTT samples",
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
                    "yaxis": _log_seconds("Median RTT [s]"),
                },
            },
            "Median RTT by bytes in flight, network and hours",
            420,
        ),
        tables=[
            NumberTable(
                [
                    "network",
                    "hours",
                    "RTT samples",
                    "mean",
                    "1st quartile",
                    "median",
                    "3rd quartile",
                    "95th percentile",
                    "mean queueing delay",
                ],
                [_rtt_row(hours) for hours in by_hours],
            )
        ],
        collapsed_tables=[
            NumberTable(
                [
                    "network",
                    "hours",
                    "in flight, at least [B]",
                    "RTT samples",
                    "1st quartile",
                    "median",
                    "3rd quartile",
                ],
                rows_by_size,
                "Numbers of each point",
            )
        ],
        notes=[paper.RTT_BY_FLIGHT],
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


def _rtt_row(hours: Hours) -> list[str]:
    count = sum(row["rtt_samples"] for row in hours.rows)
    queueing_count = sum(row["queueing_samples"] for row in hours.rows)
    return [
        hours.network.name,
        hours.label,
        number(count),
        seconds(sum(row["rtt"] for row in hours.rows) / count),
        *map(seconds, _quartiles(hours.rows)),
        seconds(log_quantile(hours.rows, "rtt_samples", 0.95)),
        seconds(
            sum(row["queueing"] for row in hours.rows) / queueing_count if queueing_count else None
        ),
    ]


def _largest_section(selection: Selection) -> Section:
    """Return the largest RTT of each user; a sample is a user in one hour."""
    samples = distributions(selection, "rtt_max", "queue_s")
    largest = [row for row in samples if row["measure"] == "rtt_max"]
    full_queue = {
        (hours.network.name, hours.period): hours.rows
        for hours in split_by_hours(
            selection, [row for row in samples if row["measure"] == "queue_s"]
        )
    }
    by_hours = split_by_hours(selection, largest)
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            **_complementary_cdf(hours.rows),
            "name": hours.name,
            "line": {"color": hours.network.colour, "dash": hours.dash, "width": 2, "shape": "hv"},
            "hovertemplate": "%{y:.1f} % above %{x:.2f} s<extra>" + hours.name + "</extra>",
        }
        for hours in by_hours
        if are_enough(hours.rows, "samples")
    ]
    section = Section(
        anchor="largest-rtt",
        title="Largest RTT by user",
        source="Wennström, Brunstrom and Rendón 2004 (the study of GPRS buffers), Fig. 2",
        hours="peak and off-peak separately",
        caption="The largest RTT on the access side for each user and hour: the longest time that "
        "a packet waits in the buffer. Full queue: the time that a packet waits in a full queue, "
        "for users with enough losses to estimate it. A user counts once in each hour. "
        + INTERVALS,
        samples=f"{number(sum(row['samples'] for row in largest))} users and hours",
        figure=figure_html(
            {
                "data": traces,
                "layout": {
                    "xaxis": _log_seconds("Largest RTT of the hour [s]"),
                    "yaxis": {
                        "title": {"text": "Share of users and hours above"},
                        "ticksuffix": " %",
                        "range": [0, 101],
                        "showgrid": True,
                        "gridcolor": GRID,
                    },
                },
            },
            "Share of users whose largest RTT exceeds a time, by network and hours",
            400,
        ),
        tables=[
            NumberTable(
                ["network", "hours", "users and hours", "median", "90th percentile", "maximum"]
                + [f"above {limit} s" for limit in LONG_RTT_S]
                + ["full queue, median"],
                [
                    *(
                        _largest_row(hours, full_queue.get((hours.network.name, hours.period), []))
                        for hours in by_hours
                    ),
                    *(
                        [
                            f"paper: buffer of {lifetime} s, {slots} slot{'s' * (slots > 1)}",
                            *["", *[NOT_MEASURED] * 3, seconds(value), *[NOT_MEASURED] * 4],
                        ]
                        for (lifetime, slots), value in paper.LARGEST_RTT.items()
                    ),
                ],
            )
        ],
    )
    return unless_empty(section, bool(by_hours))


def _largest_row(hours: Hours, full_queue: list[dict]) -> list[str]:
    return [
        hours.network.name,
        hours.label,
        number(sum(row["samples"] for row in hours.rows)),
        *(interval_text(quantile(hours.rows, q), seconds) for q in (0.5, 0.9)),
        seconds(exp((max(row["bin"] for row in hours.rows) + 1) / BINS)),
        *(
            interval_text(
                share(hours.rows, _samples_above(limit), column("samples")), percent_tenths
            )
            for limit in LONG_RTT_S
        ),
        interval_text(quantile(full_queue, 0.5), seconds, bool(full_queue)),
    ]


def _samples_above(limit: float) -> Any:
    """Return a function that returns the samples above a limit (s) of a mart distributions' row.

    Of the bin that contains the limit, the samples above it count in proportion.
    """
    edge = BINS * log(limit)
    return lambda row: row["samples"] * min(max(row["bin"] + 1 - edge, 0.0), 1.0)


def _complementary_cdf(rows: list[dict]) -> dict[str, list[float]]:
    """Return x: times (s), y: share of samples (%) above each, of the mart distributions' rows."""
    counts: dict[int, int] = {}
    for row in rows:
        counts[row["bin"]] = counts.get(row["bin"], 0) + row["samples"]
    above = total = sum(counts.values())
    x, y = [exp(min(counts) / BINS)], [100.0]
    for place in sorted(counts):
        above -= counts[place]
        x.append(exp((place + 1) / BINS))
        y.append(100 * above / total)
    return {"x": x, "y": y}
