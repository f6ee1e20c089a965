"""Fig. 4: cumulative distributions of the handshake's RTT, at peak and off-peak."""

from itertools import accumulate

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from spark_jobs.figures.fig04_round_trip_time.numbers import BIN_S, SIDES
from spark_jobs.figures.format import MILLISECONDS, count
from spark_jobs.figures.names import FEW_SAMPLES, PERIODS
from spark_jobs.figures.page_elements import NumberTable, Section, figure_html, group_rows
from spark_jobs.figures.samples import are_enough, distributions, mean_and_quantiles
from spark_jobs.figures.selection import Selection

MIN_SHOWN_SHARE = 0.99
"""Minimum share of each curve that the axis shows."""
PAPER = (
    "The paper (Section III.B): the RTT over GPRS at peak is 50 to 100 ms above that at off-peak; "
    "over dial-up it lies between 100 and 300 ms."
)


def sections(selection: Selection) -> list[Section]:
    """Return the RTT distributions of both sides, for each network at peak and off-peak."""
    rows = selection.rows("""
        select network, period, side, bin, sum(flows)::bigint as flows
        from fig04_round_trip_time group by all order by bin
    """)
    samples = group_rows(
        distributions(selection, *(f"rtt_{side}" for side in SIDES)),
        "measure",
        "network",
        "period",
    )
    groups = group_rows(rows, "side", "network", "period")
    figure = make_subplots(
        rows=1,
        cols=2,
        subplot_titles=list(SIDES.values()),
        shared_yaxes=True,
        horizontal_spacing=0.04,
    )
    table, x_end = [], {1: 0.0, 2: 0.0}
    for column, side in enumerate(SIDES, 1):
        for network in selection.networks:
            for period, (label, dash) in PERIODS.items():
                members = groups.get((side, network.name, period))
                if not members:
                    continue
                user_samples = samples.get((f"rtt_{side}", network.name, period), [])
                flows = sum(row["flows"] for row in members)
                table.append(
                    [
                        side,
                        network.name,
                        label,
                        count(flows),
                        *mean_and_quantiles(user_samples, MILLISECONDS, (0.1, 0.5, 0.9)),
                    ]
                )
                if not are_enough(user_samples):
                    continue
                x, y = _cdf(members)
                x_end[column] = max(
                    x_end[column],
                    next(x for x, y in zip(x, y, strict=True) if y >= MIN_SHOWN_SHARE),
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
    figure.update_xaxes(title_text="RTT [ms]", showgrid=True, gridcolor="#eeeeee")
    for column, right in x_end.items():
        figure.update_xaxes(range=[0, 1.05 * right or 1], row=1, col=column)
    figure.update_yaxes(range=[0, 1.01], showgrid=True, gridcolor="#eeeeee")
    figure.update_yaxes(title_text="Cumulative share of connections", row=1, col=1)
    return [
        Section(
            anchor="fig04",
            title="Fig. 4. CDF of the round-trip time",
            source="INFOCOM 2004, Section III.B",
            hours="peak and off-peak separately",
            caption="The RTT of the handshake at Gi: SYN ACK to ACK on the access side, SYN to SYN "
            "ACK on the Internet side. Only connections without background traffic count, and only "
            "an RTT below 3 s. If the SYN or the SYN ACK was repeated, timestamps must show which "
            "one was answered. Peak and off-peak are hours of the network's local time.",
            samples=f"{count(sum(row['flows'] for row in rows))} RTT samples",
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
            notes=[PAPER, *_few_samples(table)],
        )
    ]


def _few_samples(table: list[list[str]]) -> list[str]:
    """Return a note on the curves that have few samples, or no note."""
    few = [
        f"{row[1]} {row[2]} ({row[3]})"
        for row in table
        if row[0] == "access" and int(row[3].replace(",", "")) < FEW_SAMPLES
    ]
    if not few:
        return []
    return [
        f"Few access samples: {', '.join(few)}. If the RTT on the access side is close to the "
        "server's initial RTO (1 s in today's stacks, 3 s in 2004), servers retransmit most SYN "
        "ACKs. Few connections then qualify, and they are the faster ones."
    ]


def _cdf(rows: list[dict]) -> tuple[list[float], list[float]]:
    """Return the upper edges of the bins (ms) and the share of samples below each."""
    flows = [row["flows"] for row in rows]
    total = sum(flows)
    edges = [1000 * rows[0]["bin"], *(1000 * (row["bin"] + BIN_S) for row in rows)]
    return edges, [0.0, *(below / total for below in accumulate(flows))]
