"""Marks of ECN and losses by side and local hour."""

from markupsafe import Markup

from spark_jobs.figures.ecn_marks.numbers import NUMBERS
from spark_jobs.figures.format import count
from spark_jobs.figures.hours import split_by_hours
from spark_jobs.figures.names import MUTED_COLOURS
from spark_jobs.figures.numbers import Row
from spark_jobs.figures.page_elements import (
    NumberTable,
    Section,
    figure_html,
    group_rows,
    unless_empty,
)
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.subplots import GRID, subplots

ROW_PX = 240
SIDES = {
    "Internet side": ("internet_marks", "internet_loss"),
    "access side": ("access_marks", "access_loss"),
}
"""By side: the shares of marked and of lost packets."""
LINES = {"marked": MUTED_COLOURS[0], "lost": MUTED_COLOURS[1]}


def sections(selection: Selection) -> list[Section]:
    """Return the shares of marked packets beside those of lost ones."""
    by_hours = split_by_hours(selection, NUMBERS.rows(selection, "network", "period"))
    hours = group_rows(NUMBERS.rows(selection, "network", "hour"), "network")
    has_ecn = any(row["ecn_share"].value for rows in hours.values() for row in rows)
    rows = [row for of_hours in by_hours for row in of_hours.rows]
    section = Section(
        anchor="ecn",
        title="Marks of ECN and losses",
        source="RFC 3168, RFC 9768, RFC 9331 (L4S)",
        hours="by local hour; in the table, peak and off-peak separately",
        caption="Downlink packets that routers marked (Explicit Congestion Notification), in % of "
        "the packets that can be marked, and lost packets, in % of the data packets. Marks of the "
        "Internet side are seen at Gi. Those of the access side are counted by mobiles with "
        "accurate ECN. With classic ECN, a mobile reports only that there were marks: an episode "
        "lasts until the server answers, and counts once.",
        samples=f"{count(sum(row['packets'] for row in rows))} data packets",
        figure=_figure({network: rows for (network,), rows in hours.items()}),
        tables=[
            NumberTable(
                ["network", "hours", "data packets", *NUMBERS.labels],
                [
                    [of_hours.network.name, of_hours.label, count(row["packets"]), *row.texts]
                    for of_hours in by_hours
                    for row in of_hours.rows
                ],
            )
        ],
    )
    return [unless_empty(section, has_ecn)]


def _figure(rows: dict[str, list[Row]]) -> Markup:
    """Return a row of plots for each network, with a plot for each side."""
    if not rows:
        return Markup()
    plots = subplots(
        [[f"{name}, {side}" for side in SIDES] for name in rows], (0.1, 0.3 / len(rows))
    )
    data = []
    for k, of_network in enumerate(rows.values()):
        for n, measures in enumerate(SIDES.values()):
            for (label, colour), measure in zip(LINES.items(), measures, strict=True):
                values = {row["hour"]: row[measure].value for row in of_network}
                known = [values.get(hour) for hour in range(24)]
                data.append(
                    {
                        "type": "scatter",
                        "mode": "lines+markers",
                        "name": label,
                        "legendgroup": label,
                        "showlegend": k == n == 0,
                        "x": list(range(24)),
                        "y": [None if value is None else 100 * value for value in known],
                        "line": {"color": colour},
                        "hovertemplate": "%{x} h: %{y:.2f} %<extra>" + label + "</extra>",
                        **plots.axes(k, n),
                    }
                )
            x = {"title": {"text": "Local hour [h]"}, "range": [-0.5, 23.5], "gridcolor": GRID}
            y = {"title": {"text": "Packets [%]"}, "rangemode": "tozero", "gridcolor": GRID}
            plots.set_axes(k, n, x, y)
    figure = {"data": data, "layout": plots.layout}
    return figure_html(
        figure, "Marked and lost packets by network, side and local hour", ROW_PX * len(rows) + 120
    )
