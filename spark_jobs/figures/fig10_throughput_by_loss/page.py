"""Fig. 10: throughput and goodput of large single transfers by loss."""

import plotly.graph_objects as go

from spark_jobs.figures.fig10_throughput_by_loss.numbers import CLASSES, NUMBERS
from spark_jobs.figures.format import count
from spark_jobs.figures.page_elements import NumberTable, Section, error_bars, figure_html
from spark_jobs.figures.selection import Selection

PATTERNS = {"throughput": "", "received": ".", "goodput": "/"}
"""Patterns of the bars."""


def sections(selection: Selection) -> list[Section]:
    """Return three bars for each network and class of loss."""
    rows = NUMBERS.rows(selection, "network", "loss")
    figure = go.Figure()
    for network in selection.networks:
        for ratio in NUMBERS.ratios:
            shown = {
                row["loss"]: row[ratio.name]
                for row in rows
                if row["network"] == network.name and row[ratio.name].value is not None
            }
            figure.add_trace(
                go.Bar(
                    x=list(shown),
                    y=[estimate.value / 1000 for estimate in shown.values()],
                    name=f"{network.name} {ratio.label}",
                    marker={
                        "color": network.colour,
                        "pattern": {"shape": PATTERNS[ratio.name]},
                    },
                    error_y=error_bars(list(shown.values()), 1000),
                    hovertemplate="%{x}: %{y:.1f} kbit/s<extra>%{fullData.name}</extra>",
                )
            )
    figure.update_xaxes(
        title_text="Lost share of the sent data packets",
        categoryorder="array",
        categoryarray=list(CLASSES.values()),
    )
    figure.update_yaxes(title_text="Mean over connections [kbit/s]", rangemode="tozero")
    return [
        Section(
            anchor="fig10",
            title="Fig. 10. Average throughput and goodput by packet loss",
            source="INFOCOM 2004, Section VI.A",
            caption="Single request–response connections (no other traffic of the user) above "  # noqa: RUF001
            "100 KiB of distinct payload, by the share of the sent data packets that were lost on "
            "either side of Gi. "
            "The paper shows the first three classes. Throughput at Gi counts lost bytes, as in "
            "the paper, and may rise with loss. Throughput at the mobile counts only bytes that "
            "arrived.",
            samples=f"{count(sum(row['flows'] for row in rows))} connections",
            figure=figure_html(figure, "Throughput and goodput by class of loss and network", 420),
            tables=[
                NumberTable(
                    ["network", "loss", "connections", *NUMBERS.labels],
                    [
                        [row["network"], row["loss"], count(row["flows"]), *row.texts]
                        for row in rows
                    ],
                )
            ],
        )
    ]
