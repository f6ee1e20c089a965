"""Fig. 11: the connection's share of its user's bytes."""

import plotly.graph_objects as go

from spark_jobs.figures.fig11_tcp_share.numbers import BARS, THIRDS, TWENTIETHS
from spark_jobs.figures.format import count
from spark_jobs.figures.page_elements import NumberTable, Section, error_bars, figure_html
from spark_jobs.figures.selection import Selection


def sections(selection: Selection) -> list[Section]:
    """Return a histogram of the share, and its thirds."""
    networks = THIRDS.rows(selection, "network")
    by_network = {row["network"]: row for row in BARS.rows(selection, "network")}
    bars = {
        name: {n: ratio for n, ratio in enumerate(BARS.ratios) if row[ratio.name].value}
        for name, row in by_network.items()
    }
    figure = go.Figure()
    for network in selection.networks:
        drawn = bars.get(network.name)
        if not drawn:
            continue
        estimates = [by_network[network.name][ratio.name] for ratio in drawn.values()]
        figure.add_trace(
            go.Bar(
                x=[n / TWENTIETHS for n in drawn],
                y=[100 * estimate.value for estimate in estimates],
                name=network.name,
                marker={"color": network.colour},
                error_y=error_bars(estimates, 0.01),
                hovertemplate="%{x:.2f}: %{y:.1f} %<extra>" + network.name + "</extra>",
            )
        )
    figure.update_xaxes(
        title_text="The connection's share of its user's bytes", range=[-0.03, 1.03]
    )
    figure.update_yaxes(title_text="Share of connections", ticksuffix=" %")
    by_bar = [
        [name, ratio.label, by_network[name].text(ratio.name)]
        for name, drawn in bars.items()
        for ratio in drawn.values()
    ]
    return [
        Section(
            anchor="fig11",
            title="Fig. 11. Background traffic during TCP connections",
            source="INFOCOM 2004, Section VI.B",
            caption="The connection's share of all bytes that the user received from the first to "
            "the last data packet of a connection above 100 KiB of distinct payload: Btcp / (Btcp "
            "+ Bother). 1: the user received no other bytes meanwhile. Each bar is 1/20 wide.",
            samples=f"{count(sum(row['flows'] for row in networks))} connections",
            figure=figure_html(
                figure, "Histogram of the connection's share of its user's bytes", 380
            ),
            tables=[
                NumberTable(
                    ["network", "connections", *THIRDS.labels],
                    [[row["network"], count(row["flows"]), *row.texts] for row in networks],
                )
            ],
            collapsed_tables=[
                NumberTable(
                    ["network", "share of the bytes", "share of connections"],
                    by_bar,
                    "Numbers of each bar",
                )
            ]
            if by_bar
            else [],
        )
    ]
