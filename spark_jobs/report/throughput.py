"""Figs. 9, 11 and 13: throughput of large transfers, single and with background traffic."""

from collections.abc import Callable

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from spark_jobs.report import paper
from spark_jobs.report.page_elements import (
    INTERVALS,
    NumberTable,
    Section,
    figure_html,
    group_rows,
    kilobits,
    number,
    percent_tenths,
)
from spark_jobs.report.rates import bin_width, histogram, step_line
from spark_jobs.report.samples import (
    are_enough,
    distributions,
    error_bars,
    interval_text,
    mean_and_quantiles,
    share,
)
from spark_jobs.report.selection import Selection

LEVELS = {
    0: "less than 1/3 background",
    1: "between 1/3 and 2/3 background",
    2: "at least 2/3 background",
}
TWENTIETHS = 20
"""Bars of Fig. 11, besides one for connections without background traffic."""
COUNTED = {"passed": ("passed Gi", "solid"), "arrived": ("arrived", "dot")}
"""By counted bytes: label and dash style."""
LINES = (
    "Solid, as in the paper: bytes that passed Gi, including the first packet and bytes lost on "
    "the access side. Dotted: bytes that arrived at the mobile in the same time. "
)


def throughput(selection: Selection) -> Section:
    """Return Fig. 9: throughput of single transfers."""
    rows = selection.rows("""
        select network, counted, bin, sum(flows)::bigint as flows
        from fig09_throughput group by all order by bin
    """)
    samples = group_rows(
        distributions(selection, "throughput", "throughput_received"), "network", "measure"
    )
    figure, table = go.Figure(), []
    width = bin_width(rows, "flows") if rows else 1000.0
    groups = group_rows(rows, "network", "counted")
    for network in selection.networks:
        for counted, (label, dash) in COUNTED.items():
            members = groups.get((network.name, counted), [])
            measure = "throughput" if counted == "passed" else "throughput_received"
            user_samples = samples.get((network.name, measure), [])
            if members:
                table.append([network.name, label, *_table_numbers(user_samples)])
            if are_enough(user_samples, "samples"):
                name = f"{network.name} {label}"
                figure.add_trace(_step(name, network.colour, dash, members, width))
    figure.update_xaxes(title_text="Throughput [kbit/s]", rangemode="tozero")
    figure.update_yaxes(
        title_text=f"Share of connections per {width / 1000:g} kbit/s",
        ticksuffix=" %",
        rangemode="tozero",
    )
    return Section(
        anchor="fig09",
        title="Fig. 9. Throughput of single, large TCP connections",
        source="INFOCOM 2004, Section VI.A",
        caption="Single connections (no other traffic of the user) above 100 KB with one request "
        "and its response. Throughput is IP bytes over the time from the ACK of the first to the "
        "ACK of the last data packet. " + LINES + INTERVALS,
        samples=f"{number(_count_connections(rows))} connections",
        figure=figure_html(figure, "Histograms of single-flow throughput by network", 400),
        tables=[NumberTable(["network", "counted", *NUMBERS], table)],
        notes=[paper.THROUGHPUT],
    )


def tcp_share(selection: Selection) -> Section:
    """Return Fig. 11: the connection's share of its user's bytes."""
    rows = selection.rows("""
        select network, bin, user_group, sum(flows)::bigint as flows
        from fig11_tcp_share group by all order by all
    """)
    figure, table, by_bar = go.Figure(), [], []
    by_network = group_rows(rows, "network")
    for network in selection.networks:
        members = by_network.get((network.name,), [])
        total = sum(row["flows"] for row in members)
        if not total:
            continue
        thirds = [
            share(members, _flows_between(*ends))
            for ends in ((0, 20), (20, 40), (40, 60), (60, 61))
        ]
        table.append(
            [network.name, number(total), *(interval_text(n, percent_tenths) for n in thirds)]
        )
        if not are_enough(members):
            continue
        bars = [share(members, _flows_between(3 * n, 3 * n + 3)) for n in range(TWENTIETHS + 1)]
        by_bar += [
            [network.name, _twentieth(n), interval_text(bar, percent_tenths)]
            for n, bar in enumerate(bars)
            if bar.value
        ]
        drawn_bars = {n: bar for n, bar in enumerate(bars) if bar.value}
        figure.add_trace(
            go.Bar(
                x=[n / TWENTIETHS for n in drawn_bars],
                y=[100 * (bar.value or 0) for bar in drawn_bars.values()],
                name=network.name,
                marker={"color": network.colour},
                error_y=error_bars(list(drawn_bars.values()), 0.01),
                hovertemplate="%{x:.2f}: %{y:.1f} %<extra>" + network.name + "</extra>",
            )
        )
    figure.update_xaxes(
        title_text="The connection's share of its user's bytes", range=[-0.03, 1.03]
    )
    figure.update_yaxes(title_text="Share of connections", ticksuffix=" %")
    return Section(
        anchor="fig11",
        title="Fig. 11. Background traffic during TCP connections",
        source="INFOCOM 2004, Section VI.B",
        caption="The connection's share of all bytes that the user received from the first to the "
        "last data packet of a connection above 100 KB: Btcp / (Btcp + Bother). 1: the user "
        "received no other bytes meanwhile. Each bar is 1/20 wide. " + INTERVALS,
        samples=f"{number(sum(row['flows'] for row in rows))} connections",
        figure=figure_html(figure, "Histogram of the connection's share of its user's bytes", 380),
        tables=[
            NumberTable(
                [
                    "network",
                    "connections",
                    "below 1/3",
                    "1/3 to 2/3",
                    "2/3 to below 1",
                    "1: single",
                ],
                table,
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


def _twentieth(place: int) -> str:
    """Return the range of shares of a bar of Fig. 11, in words."""
    if place == TWENTIETHS:
        return "1: single"
    return f"{place / TWENTIETHS:.2f} to below {(place + 1) / TWENTIETHS:.2f}"


def user_throughput(selection: Selection) -> Section:
    """Return Fig. 13: user throughput by level of background traffic."""
    rows = selection.rows("""
        select network, background_thirds as level, counted, bin, sum(flows)::bigint as flows
        from fig13_user_throughput group by all order by bin
    """)
    samples = group_rows(
        distributions(selection, "user_throughput", "user_throughput_received"),
        "network",
        "measure",
        "category",
    )
    levels = sorted({row["level"] for row in rows}, reverse=True) or [0]
    figure = make_subplots(
        rows=len(levels),
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.09,
        subplot_titles=[LEVELS[level] for level in levels],
    )
    width = bin_width(rows, "flows") if rows else 1000.0
    groups = group_rows(rows, "network", "level", "counted")
    table = []
    for place, level in enumerate(levels, 1):
        for network in selection.networks:
            for counted, (label, dash) in COUNTED.items():
                members = groups.get((network.name, level, counted), [])
                measure = "user_throughput" + ("" if counted == "passed" else "_received")
                user_samples = samples.get((network.name, measure, str(level)), [])
                if members:
                    table.append(
                        [LEVELS[level], network.name, label, *_table_numbers(user_samples)]
                    )
                if are_enough(user_samples, "samples"):
                    name = f"{network.name} {label}"
                    trace = _step(name, network.colour, dash, members, width)
                    figure.add_trace(trace, row=place, col=1)
    in_legend: set[str] = set()
    for trace in figure.data:
        trace.showlegend = trace.name not in in_legend
        in_legend.add(trace.name)
    figure.update_xaxes(rangemode="tozero")
    figure.update_xaxes(title_text="User throughput [kbit/s]", row=len(levels), col=1)
    figure.update_yaxes(ticksuffix=" %", rangemode="tozero")
    figure.update_annotations(font_size=13)
    figure.add_annotation(
        text=f"Share of connections per {width / 1000:g} kbit/s",
        textangle=-90,
        showarrow=False,
        xref="paper",
        yref="paper",
        x=0,
        y=0.5,
        xanchor="right",
        xshift=-44,
        font_size=14,
    )
    return Section(
        anchor="fig13",
        title="Fig. 13. User throughput by background traffic",
        source="INFOCOM 2004, Section VI.B",
        caption="All bytes that a user received during a connection above 100 KB, over the time "
        "from the ACK of the connection's first to the ACK of its last data packet: R = 8 (Btcp + "
        "Bother) / (T2ack − T1ack). Levels: the share of background bytes. Levels without "  # noqa: RUF001
        "connections are left out. " + LINES + INTERVALS,
        samples=f"{number(_count_connections(rows))} connections",
        figure=figure_html(
            figure,
            "Histograms of user throughput by level of background traffic",
            120 + 190 * len(levels),
        ),
        tables=[NumberTable(["background", "network", "counted", *NUMBERS], table)],
        notes=[paper.USER_THROUGHPUT],
    )


NUMBERS = ("connections", "mean", "10th percentile", "median", "90th percentile")


def _table_numbers(samples: list[dict]) -> list[str]:
    count = number(sum(row["samples"] for row in samples))
    return [count, *mean_and_quantiles(samples, kilobits, (0.1, 0.5, 0.9))]


def _count_connections(rows: list[dict]) -> int:
    """Return the number of connections; each is in the rows of passed and of arrived bytes."""
    return sum(row["flows"] for row in rows if row["counted"] == "passed")


def _flows_between(low: int, high: int) -> Callable[[dict], float]:
    """Return a function that returns a row's flows if its share is in [low, high) sixtieths."""
    return lambda row: row["flows"] if low <= 3 * round(row["bin"] * TWENTIETHS) < high else 0


def _step(name: str, colour: str, dash: str, rows: list[dict], width: float) -> go.Scatter:
    trace = step_line(*histogram(rows, "flows", width), name, colour)
    trace.line.dash = dash
    return trace
