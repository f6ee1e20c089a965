"""Fig. 10: throughput and goodput of large single transfers by loss."""

import plotly.graph_objects as go

from spark_jobs.report.parts import Section, TableOfNumbers, drawn, kilobits, number
from spark_jobs.report.selection import Selection

CLASSES = {0: "0 to 1 %", 1: "1 to 2 %", 2: "2 to 3 %", 3: "3 % and more"}
PATTERNS = {"throughput": "", "goodput": "/"}


def section(selection: Selection) -> Section:
    """Two bars a network and class of loss."""
    rows = {
        (row["network"], row["loss_class"]): row
        for row in selection.rows("""
            select network, loss_class, sum(flows)::bigint as flows,
                sum(throughput_sum) / sum(flows) as throughput,
                sum(goodput_sum) / sum(flows) as goodput
            from fig10_throughput_by_loss group by all
        """)
    }
    figure, table = go.Figure(), []
    for network in selection.networks:
        mine = {c: rows[network.name, c] for c in CLASSES if (network.name, c) in rows}
        for value, pattern in PATTERNS.items():
            figure.add_trace(
                go.Bar(
                    x=[CLASSES[c] for c in mine],
                    y=[row[value] / 1000 for row in mine.values()],
                    name=f"{network.name} {value}",
                    marker={"color": network.colour, "pattern": {"shape": pattern}},
                    hovertemplate="%{x}: %{y:.1f} kbit/s<extra>%{fullData.name}</extra>",
                )
            )
        table += [
            [
                network.name,
                CLASSES[c],
                number(row["flows"]),
                kilobits(row["throughput"]),
                kilobits(row["goodput"]),
            ]
            for c, row in mine.items()
        ]
    figure.update_xaxes(
        title_text="Lost to sent data packets",
        categoryorder="array",
        categoryarray=list(CLASSES.values()),
    )
    figure.update_yaxes(title_text="Mean of connections [kbit/s]", rangemode="tozero")
    return Section(
        anchor="fig10",
        title="Fig. 10. Average throughput and goodput by packet loss",
        source="INFOCOM 2004, Section VI.A",
        caption="Single request–response connections above 100 KB without other traffic of the "  # noqa: RUF001
        "user; packets lost on either side to packets sent. The paper shows the first three "
        "classes.",
        samples=f"{number(sum(row['flows'] for row in rows.values()))} connections",
        figure=drawn(figure, "Throughput and goodput by class of loss and network", 420),
        tables=[TableOfNumbers(["network", "loss", "connections", "throughput", "goodput"], table)],
    )
