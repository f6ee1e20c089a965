"""Fig. 4: cumulative distributions of the handshake's round trips, peak and off-peak."""

from itertools import accumulate

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from spark_jobs.report import paper
from spark_jobs.report.page_elements import (
    INTERVALS,
    Section,
    NumberTable,
    figure_html,
    group,
    milliseconds,
    number,
)
from spark_jobs.report.samples import are_enough, distributions, numbers
from spark_jobs.report.selection import Selection

BIN_S = 0.01
FEW_SAMPLES = 30
SHOWN = 0.99
"""The share of every curve that the axis shows at least."""
SIDES = {
    "access": "Access side: Gi, mobile, Gi",
    "internet": "Internet side: Gi, server, Gi",
}
PERIODS = {"peak": ("peak", "solid"), "off_peak": ("off-peak", "dash"), "other": ("other", "dot")}


def section(selection: Selection) -> Section:
    """Access side and Internet side, each network at peak and off-peak."""
    rows = selection.rows("""
        select network, period, side, bin, sum(flows)::bigint as flows
        from fig04_round_trip_time group by all order by bin
    """)
    samples = group(
        distributions(selection, *(f"rtt_{side}" for side in SIDES)),
        "measure",
        "network",
        "period",
    )
    groups = group(rows, "side", "network", "period")
    figure = make_subplots(
        rows=1,
        cols=2,
        subplot_titles=list(SIDES.values()),
        shared_yaxes=True,
        horizontal_spacing=0.04,
    )
    table, reach = [], {1: 0.0, 2: 0.0}
    for column, side in enumerate(SIDES, 1):
        for network in selection.networks:
            for period, (label, dash) in PERIODS.items():
                mine = groups.get((side, network.name, period))
                if not mine:
                    continue
                of_users = samples.get((f"rtt_{side}", network.name, period), [])
                count = sum(row["flows"] for row in mine)
                table.append(
                    [
                        side,
                        network.name,
                        label,
                        number(count),
                        *numbers(of_users, milliseconds, (0.1, 0.5, 0.9)),
                    ]
                )
                if not are_enough(of_users, "samples"):
                    continue
                x, y = _cdf(mine)
                reach[column] = max(
                    reach[column], next(x for x, y in zip(x, y, strict=True) if y >= SHOWN)
                )
                name = f"{network.name} {label}"
                figure.add_trace(
                    go.Scatter(
                        x=x,
                        y=y,
                        mode="lines",
                        line={"color": network.colour, "dash": dash, "width": 2},
                        name=name,
                        legendgroup=name,
                        showlegend=name not in {trace.name for trace in figure.data},
                        hovertemplate="%{y:.2f} below %{x:.0f} ms<extra>" + name + "</extra>",
                    ),
                    row=1,
                    col=column,
                )
    figure.update_xaxes(title_text="Round-trip time [ms]", showgrid=True, gridcolor="#eeeeee")
    for column, right in reach.items():
        figure.update_xaxes(range=[0, 1.05 * right or 1], row=1, col=column)
    figure.update_yaxes(range=[0, 1.01], showgrid=True, gridcolor="#eeeeee")
    figure.update_yaxes(title_text="Cumulative share of connections", row=1, col=1)
    return Section(
        anchor="fig04",
        title="Fig. 4. CDF of the round-trip time",
        source="INFOCOM 2004, Section III.B",
        hours="peak and off-peak apart",
        caption="The handshake's round trips, seen at Gi: SYN ACK to ACK on the access side, SYN "
        "to SYN ACK on the Internet side; only "
        "connections with one SYN, one SYN ACK and no background traffic, and only below 3 s. "
        "Peak and off-peak are hours of the network's local time. " + INTERVALS,
        samples=f"{number(sum(row['flows'] for row in rows))} round trips",
        figure=figure_html(
            figure, "Cumulative distributions of round-trip times by network and hours", 480
        ),
        tables=[
            NumberTable(
                [
                    "side",
                    "network",
                    "hours",
                    "samples",
                    "mean",
                    "10th percentile",
                    "median",
                    "90th percentile",
                ],
                table,
            )
        ],
        notes=[paper.ROUND_TRIP, *_few(table)],
    )


def _few(table: list[list[str]]) -> list[str]:
    """A warning where a curve rests on few samples."""
    few = [
        f"{row[1]} {row[2]} ({row[3]})"
        for row in table
        if row[0] == "access" and int(row[3].replace(",", "")) < FEW_SAMPLES
    ]
    if not few:
        return []
    return [
        f"Few access samples: {', '.join(few)}. Where the access round trip comes near the "
        "server's initial retransmission timeout (1 s in today's stacks, 3 s in 2004), most SYN "
        "ACKs are sent twice and few connections qualify, the faster ones."
    ]


def _cdf(rows: list[dict]) -> tuple[list[float], list[float]]:
    """Upper edges of the bins in ms, and the share of samples below them."""
    counts = [row["flows"] for row in rows]
    total = sum(counts)
    edges = [1000 * rows[0]["bin"], *(1000 * (row["bin"] + BIN_S) for row in rows)]
    return edges, [0.0, *(seen / total for seen in accumulate(counts))]
