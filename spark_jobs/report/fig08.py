"""Fig. 8: connections without loss, with more loss on the access or on the Internet side."""

import plotly.graph_objects as go

from spark_jobs.report import paper
from spark_jobs.report.page_elements import (
    INTERVALS,
    NumberTable,
    Section,
    figure_html,
    group_rows,
    number,
    percent,
    percent_tenths,
)
from spark_jobs.report.samples import are_enough, flows_where, interval_text, share
from spark_jobs.report.selection import Selection

SIDES = {
    "none": ("no loss", "#b9d7a8"),
    "access": ("more on the access side", "#e69a7a"),
    "internet": ("more on the Internet side", "#8fb4d9"),
    "equal": ("as many on both", "#c9c9c9"),
}


def section(selection: Selection) -> Section:
    """Return the shares of connections by the side of most losses, with a bar for each network."""
    rows = selection.rows("""
        select network, bottleneck, user_group, sum(flows)::bigint as flows
        from fig08_bottleneck group by all order by all
    """)
    by_network = {name: members for (name,), members in group_rows(rows, "network").items()}
    totals = {name: sum(row["flows"] for row in members) for name, members in by_network.items()}
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        key = row["network"], row["bottleneck"]
        counts[key] = counts.get(key, 0) + row["flows"]
    measured = [name for name, members in by_network.items() if are_enough(members)]
    figure = go.Figure()
    for side, (label, colour) in SIDES.items():
        figure.add_trace(
            go.Bar(
                y=[*measured, *paper.FIG_8],
                x=[
                    *(100 * counts.get((name, side), 0) / totals[name] for name in measured),
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
            *(
                interval_text(
                    share(members, flows_where("bottleneck", side)),
                    percent_tenths,
                )
                for side in SIDES
            ),
        ]
        for name, members in by_network.items()
    ]
    table += [
        [name, number(None), *(percent(shares.get(side), digits=1) for side in SIDES)]
        for name, shares in paper.FIG_8.items()
    ]
    return Section(
        anchor="fig08",
        title="Fig. 8. Where connections lose packets",
        source="INFOCOM 2004, Section V",
        caption="Connections with downlink data, by the side on which they lost more data packets. "
        + INTERVALS,
        samples=f"{number(sum(totals.values()))} connections",
        figure=figure_html(
            figure, "Shares of connections by side of most losses", 160 + 44 * (len(measured) + 1)
        ),
        tables=[
            NumberTable(["network", "connections", *(label for label, _ in SIDES.values())], table)
        ],
    )
