"""The largest RTT of each user.

Source: Wennström, Brunstrom and Rendón, Electronics Letters 2004, Fig. 2.
"""

from spark_jobs.figures.format import NOT_MEASURED, SECONDS, count
from spark_jobs.figures.hours import Hours, split_by_hours
from spark_jobs.figures.largest_rtt_by_user.numbers import BY_PERIOD
from spark_jobs.figures.numbers import Row
from spark_jobs.figures.page_elements import (
    NumberTable,
    Section,
    figure_html,
    log_seconds_axis,
    unless_empty,
)
from spark_jobs.figures.samples import are_enough, cumulative, distributions, quantile
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.subplots import GRID

PAPER = {
    (63, 1): 48.0,
    (63, 3): 17.0,
    (5, 1): 9.0,
    (5, 3): 8.0,
}
"""RTT (s) by buffer lifetime (s) and time slots; the study of buffers, Fig. 2 and its text."""


def sections(selection: Selection) -> list[Section]:
    """Return the largest RTT of each user; a sample is a user in one hour."""
    samples = distributions(selection, "rtt_max", "queue_s")
    largest = [row for row in samples if row["measure"] == "rtt_max"]
    full_queue = {
        (hours.network.name, hours.period): hours.rows
        for hours in split_by_hours(
            selection, [row for row in samples if row["measure"] == "queue_s"]
        )
    }
    above = {
        (row["network"], row["period"]): row
        for row in BY_PERIOD.rows(selection, "network", "period")
    }
    by_hours = split_by_hours(selection, largest)
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": times,
            "y": [100 * (1 - share) for share in shares],
            "name": hours.name,
            "line": {"color": hours.network.colour, "dash": hours.dash, "width": 2, "shape": "hv"},
            "hovertemplate": "%{y:.1f} % above %{x:.2f} s<extra>" + hours.name + "</extra>",
        }
        for hours in by_hours
        if are_enough(hours.rows)
        for times, shares in [cumulative(hours.rows)]
    ]
    section = Section(
        anchor="largest-rtt",
        title="Largest RTT by user",
        source="Wennström, Brunstrom and Rendón 2004 (the study of GPRS buffers), Fig. 2",
        hours="peak and off-peak separately",
        caption="The largest RTT on the access side for each user and hour: the longest time that "
        "a packet waits in the buffer. Full queue: the time that a packet waits in a full queue, "
        "for users with enough losses to estimate it. A user counts once in each hour.",
        samples=f"{count(sum(row['samples'] for row in largest))} users and hours",
        figure=figure_html(
            {
                "data": traces,
                "layout": {
                    "xaxis": log_seconds_axis("Largest RTT of the hour [s]"),
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
                [
                    "network",
                    "hours",
                    "users and hours",
                    "median",
                    "90th percentile",
                    "maximum",
                    *BY_PERIOD.labels,
                    "full queue, median",
                ],
                [
                    *(
                        _largest_row(hours, above[key], full_queue.get(key, []))
                        for hours in by_hours
                        for key in [(hours.network.name, hours.period)]
                    ),
                    *(
                        [
                            f"paper: buffer of {lifetime} s, {slots} slot{'s' * (slots > 1)}",
                            "",
                            *[NOT_MEASURED] * 3,
                            SECONDS.text(value),
                            *[NOT_MEASURED] * (len(BY_PERIOD.ratios) + 1),
                        ]
                        for (lifetime, slots), value in PAPER.items()
                    ),
                ],
            )
        ],
    )
    return [unless_empty(section, bool(by_hours))]


def _largest_row(hours: Hours, above: Row, full_queue: list[dict]) -> list[str]:
    return [
        hours.network.name,
        hours.label,
        count(sum(row["samples"] for row in hours.rows)),
        *(SECONDS.estimate(quantile(hours.rows, q)) for q in (0.5, 0.9)),
        SECONDS.text(max(row["highest"] for row in hours.rows)),
        *above.texts,
        SECONDS.estimate(quantile(full_queue, 0.5), bool(full_queue)),
    ]
