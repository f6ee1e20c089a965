"""Fig. 8: connections without loss, with more loss on the access or on the Internet side."""

import plotly.graph_objects as go

from spark_jobs.figures.fig08_bottleneck.numbers import NUMBERS, SIDES
from spark_jobs.figures.format import INTERVALS, NOT_MEASURED, PERCENT, count
from spark_jobs.figures.page_elements import NumberTable, Section, figure_html
from spark_jobs.figures.selection import Selection

PAPER = {"paper: GPRS": {"none": 0.47, "access": 0.48, "internet": 0.05}}


def sections(selection: Selection) -> list[Section]:
    """Return the shares of connections by the side of most losses, with a bar for each network."""
    networks = NUMBERS.rows(selection, "network")
    shares = {
        row["network"]: {side: row[side].value for side in SIDES}
        for row in networks
        if row["none"].value is not None
    } | PAPER
    figure = go.Figure(
        [
            go.Bar(
                y=list(shares),
                x=[100 * of_network.get(side, 0) for of_network in shares.values()],
                name=label,
                orientation="h",
                marker={"color": colour},
                hovertemplate="%{y}: %{x:.1f} % " + label + "<extra></extra>",
            )
            for side, (label, colour) in SIDES.items()
        ]
    )
    figure.update_layout(barmode="stack")
    figure.update_xaxes(title_text="Share of connections [%]", range=[0, 100])
    figure.update_yaxes(autorange="reversed")
    table = [[row["network"], count(row["flows"]), *row.texts] for row in networks]
    table += [
        [name, NOT_MEASURED, *(PERCENT.text(values.get(side), 1) for side in SIDES)]
        for name, values in PAPER.items()
    ]
    return [
        Section(
            anchor="fig08",
            title="Fig. 8. Where connections lose packets",
            source="INFOCOM 2004, Section V",
            caption="Connections with downlink data, by the side on which they lost more data "
            "packets. " + INTERVALS,
            samples=f"{count(sum(row['flows'] for row in networks))} connections",
            figure=figure_html(
                figure, "Shares of connections by side of most losses", 160 + 44 * len(shares)
            ),
            tables=[NumberTable(["network", "connections", *NUMBERS.labels], table)],
        )
    ]
