"""RTT by bytes in flight.

Source: Wennström, Brunstrom and Rendón, Electronics Letters 2004, Figs. 3 and 4.
"""

from spark_jobs.figures.format import SECONDS, count
from spark_jobs.figures.hours import Hours, split_by_hours
from spark_jobs.figures.names import FEW_SAMPLES
from spark_jobs.figures.numbers import Row
from spark_jobs.figures.page_elements import (
    NumberTable,
    Section,
    figure_html,
    group_rows,
    log_quantile,
    log_seconds_axis,
    unless_empty,
)
from spark_jobs.figures.rtt_by_flight.numbers import COUNTED_SAMPLES, MIN_FLIGHT_B, NUMBERS
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.subplots import GRID

PAPER = (
    "The study of GPRS buffers (Figs. 3 and 4; one time slot): with more bytes in flight, the RTT "
    "grows from 1 to 48 s if the buffer lifetime is 63 s, and varies between 2 and 9 s if it is 5 "
    "s. The throughput is about the same."
)


def sections(selection: Selection) -> list[Section]:
    """Return the RTT by bytes in flight."""
    rows = selection.rows(f"""
        select network, period, flight, bin, sum(rtt_samples)::bigint as rtt_samples
        from rtt_by_flight where {COUNTED_SAMPLES}
        group by all order by flight
    """)
    means = {
        (row["network"], row["period"]): row for row in NUMBERS.rows(selection, "network", "period")
    }
    by_hours = split_by_hours(selection, rows)
    traces, rows_by_size = [], []
    for hours in by_hours:
        points = [
            (size, sum(row["rtt_samples"] for row in members), _quartiles(members))
            for (size,), members in group_rows(hours.rows, "flight").items()
        ]
        rows_by_size += [
            [
                hours.network.name,
                hours.label,
                count(size),
                count(samples),
                *map(SECONDS.text, quartiles),
            ]
            for size, samples, quartiles in points
        ]
        shown = [(size, quartiles) for size, samples, quartiles in points if samples >= FEW_SAMPLES]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": [size for size, _ in shown],
                "y": [quartiles[1] for _, quartiles in shown],
                "text": [
                    f"{SECONDS.text(low)} to {SECONDS.text(high)}" for _, (low, _, high) in shown
                ],
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
        f"{MIN_FLIGHT_B} B, possibly delayed ACKs are left out. A point has at least "
        f"{FEW_SAMPLES} RTT samples. giscope keeps at most ten samples per second of a connection, "
        "so their number does not indicate the amount of traffic. This section has no confidence "
        "intervals.",
        samples=f"{count(sum(row['rtt_samples'] for row in rows))} RTT samples",
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
                    "yaxis": log_seconds_axis("Median RTT [s]"),
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
                [_rtt_row(hours, means[hours.network.name, hours.period]) for hours in by_hours],
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
        notes=[PAPER],
    )
    return [unless_empty(section, bool(by_hours))]


def _quartiles(rows: list[dict]) -> list[float]:
    return [log_quantile(rows, "rtt_samples", share) or 0.0 for share in (0.25, 0.5, 0.75)]


def _rtt_row(hours: Hours, means: Row) -> list[str]:
    return [
        hours.network.name,
        hours.label,
        count(means["rtt_samples"]),
        means.text("rtt"),
        *map(SECONDS.text, _quartiles(hours.rows)),
        SECONDS.text(log_quantile(hours.rows, "rtt_samples", 0.95)),
        means.text("queueing"),
    ]
