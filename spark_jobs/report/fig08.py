"""Fig. 8: connections with no loss, more loss on the access, more on the Internet side."""

import plotly.graph_objects as go

from spark_jobs.report import paper
from spark_jobs.report.parts import Section, TableOfNumbers, drawn, number, percent
from spark_jobs.report.selection import Selection

SIDES = {
    "none": ("no loss", "#b9d7a8"),
    "access": ("more on the access side", "#e69a7a"),
    "internet": ("more on the Internet side", "#8fb4d9"),
    "equal": ("as many on both", "#c9c9c9"),
}


def section(selection: Selection) -> Section:
    """Shares of the connections by the side of most losses, a bar a network."""
    counted = {
        (row["network"], row["bottleneck"]): row["flows"]
        for row in selection.rows("""
            select network, bottleneck, sum(flows)::bigint as flows
            from fig08_bottleneck group by all
        """)
    }
    totals = {
        network.name: sum(counted.get((network.name, side), 0) for side in SIDES)
        for network in selection.networks
    }
    measured = [name for name, total in totals.items() if total]
    figure = go.Figure()
    for side, (label, colour) in SIDES.items():
        figure.add_trace(
            go.Bar(
                y=[*measured, *paper.FIG_8],
                x=[
                    *(100 * counted.get((name, side), 0) / totals[name] for name in measured),
                    *(100 * shares.get(side, 0) for shares in paper.FIG_8.values()),
                ],
                name=label,
                orientation="h",
                marker={"color": colour},
                hovertemplate="%{y}: %{x:.1f} % " + label + "<extra></extra>",
            )
        )
    figure.update_layout(barmode="stack")
    figure.update_xaxes(title_text="Share of connections [%]", range=[0, 100])
    figure.update_yaxes(autorange="reversed")
    table = [
        [
            name,
            number(totals[name]),
            *(percent(counted.get((name, side), 0), totals[name], 1) for side in SIDES),
        ]
        for name in measured
    ]
    table += [
        [name, number(None), *(percent(shares.get(side), digits=1) for side in SIDES)]
        for name, shares in paper.FIG_8.items()
    ]
    return Section(
        anchor="fig08",
        title="Fig. 8. Where connections lose packets",
        source="INFOCOM 2004, Section V",
        caption="Connections with downlink data, by the side on which they lost more data packets.",
        samples=f"{number(sum(totals.values()))} connections",
        figure=drawn(
            figure, "Shares of connections by side of most losses", 160 + 44 * (len(measured) + 1)
        ),
        tables=[
            TableOfNumbers(
                ["network", "connections", *(label for label, _ in SIDES.values())], table
            )
        ],
    )
