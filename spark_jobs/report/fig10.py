"""Fig. 10: throughput and goodput of large single transfers by loss."""

import plotly.graph_objects as go

from spark_jobs.report.page_elements import (
    INTERVALS,
    NumberTable,
    Section,
    figure_html,
    group_rows,
    kilobits,
    number,
)
from spark_jobs.report.samples import error_bars, interval_text, mean
from spark_jobs.report.selection import Selection

CLASSES = {0: "0 to 1 %", 1: "1 to 2 %", 2: "2 to 3 %", 3: "3 % and more"}
VALUES = {
    "throughput": ("throughput at Gi", ""),
    "received": ("throughput at the mobile", "."),
    "goodput": ("goodput", "/"),
}
"""By column: its label and the pattern of its bars."""


def section(selection: Selection) -> Section:
    """Return three bars for each network and class of loss."""
    rows = selection.rows("""
        select network, loss_class, user_group, sum(flows)::bigint as flows,
            sum(throughput_sum) as throughput, sum(received_sum) as received,
            sum(goodput_sum) as goodput
        from fig10_throughput_by_loss group by all order by all
    """)
    groups = group_rows(rows, "network", "loss_class")
    figure, table = go.Figure(), []
    for network in selection.networks:
        by_class = {c: groups[network.name, c] for c in CLASSES if (network.name, c) in groups}
        means = {(c, v): mean(members, v) for c, members in by_class.items() for v in VALUES}
        for value, (label, pattern) in VALUES.items():
            shown = {c: means[c, value] for c in by_class if means[c, value].value is not None}
            figure.add_trace(
                go.Bar(
                    x=[CLASSES[c] for c in shown],
                    y=[(estimate.value or 0) / 1000 for estimate in shown.values()],
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
                *(interval_text(means[c, value], kilobits) for value in VALUES),
            ]
            for c, members in by_class.items()
        ]
    figure.update_xaxes(
        title_text="Lost share of the sent data packets",
        categoryorder="array",
        categoryarray=list(CLASSES.values()),
    )
    figure.update_yaxes(title_text="Mean over connections [kbit/s]", rangemode="tozero")
    return Section(
        anchor="fig10",
        title="Fig. 10. Average throughput and goodput by packet loss",
        source="INFOCOM 2004, Section VI.A",
        caption="Single request–response connections (no other traffic of the user) above 100 KB, "  # noqa: RUF001
        "by the share of the sent data packets that were lost on either side of Gi. The paper "
        "shows the first three classes. Throughput at Gi counts lost bytes, as in the paper, and "
        "may rise with loss. Throughput at the mobile counts only bytes that arrived. " + INTERVALS,
        samples=f"{number(sum(row['flows'] for row in rows))} connections",
        figure=figure_html(figure, "Throughput and goodput by class of loss and network", 420),
        tables=[
            NumberTable(
                ["network", "loss", "connections", *(label for label, _ in VALUES.values())], table
            )
        ],
    )
