"""Fig. 10: throughput and goodput of large single transfers by loss."""

import plotly.graph_objects as go

from spark_jobs.report.page_elements import (
    INTERVALS,
    Section,
    NumberTable,
    figure_html,
    group,
    kilobits,
    number,
)
from spark_jobs.report.samples import error_bars, mean, interval_text
from spark_jobs.report.selection import Selection

CLASSES = {0: "0 to 1 %", 1: "1 to 2 %", 2: "2 to 3 %", 3: "3 % and more"}
VALUES = {
    "throughput": ("throughput, passed Gi", ""),
    "received": ("throughput, arrived", "."),
    "goodput": ("goodput", "/"),
}
"""Columns, what they are called, and their bars' patterns."""


def section(selection: Selection) -> Section:
    """Three bars a network and class of loss."""
    rows = selection.rows("""
        select network, loss_class, user_group, sum(flows)::bigint as flows,
            sum(throughput_sum) as throughput, sum(received_sum) as received,
            sum(goodput_sum) as goodput
        from fig10_throughput_by_loss group by all order by all
    """)
    cells = group(rows, "network", "loss_class")
    figure, table = go.Figure(), []
    for network in selection.networks:
        mine = {c: cells[network.name, c] for c in CLASSES if (network.name, c) in cells}
        found = {(c, v): mean(members, v) for c, members in mine.items() for v in VALUES}
        for value, (label, pattern) in VALUES.items():
            shown = {c: found[c, value] for c in mine if found[c, value].value is not None}
            figure.add_trace(
                go.Bar(
                    x=[CLASSES[c] for c in shown],
                    y=[(one.value or 0) / 1000 for one in shown.values()],
                    name=f"{network.name} {label}",
                    marker={"color": network.colour, "pattern": {"shape": pattern}},
                    error_y=error_bars(list(shown.values()), 1000),
                    hovertemplate="%{x}: %{y:.1f} kbit/s<extra>%{fullData.name}</extra>",
                )
            )
        table += [
            [
                network.name,
                CLASSES[c],
                number(sum(row["flows"] for row in members)),
                *(interval_text(found[c, value], kilobits) for value in VALUES),
            ]
            for c, members in mine.items()
        ]
    figure.update_xaxes(
        title_text="Share of the sent data packets that was lost",
        categoryorder="array",
        categoryarray=list(CLASSES.values()),
    )
    figure.update_yaxes(title_text="Mean of connections [kbit/s]", rangemode="tozero")
    return Section(
        anchor="fig10",
        title="Fig. 10. Average throughput and goodput by packet loss",
        source="INFOCOM 2004, Section VI.A",
        caption="Single request–response connections above 100 KB without other traffic of the "  # noqa: RUF001
        "user, by the share of the sent data packets that was lost on either side of Gi. The paper "
        "shows the first three classes. What passed Gi counts lost bytes, as in the paper, and "
        "may rise with loss; beside it what arrived at the mobile, and goodput. " + INTERVALS,
        samples=f"{number(sum(row['flows'] for row in rows))} connections",
        figure=figure_html(figure, "Throughput and goodput by class of loss and network", 420),
        tables=[
            NumberTable(
                ["network", "loss", "connections", *(label for label, _ in VALUES.values())], table
            )
        ],
    )
