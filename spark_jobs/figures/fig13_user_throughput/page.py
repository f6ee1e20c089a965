"""Fig. 13: throughput of users with background traffic."""

from plotly.subplots import make_subplots

from spark_jobs.figures.fig13_user_throughput.numbers import LEVELS
from spark_jobs.figures.format import count
from spark_jobs.figures.page_elements import NumberTable, Section, figure_html, group_rows
from spark_jobs.figures.rates import (
    COUNTED,
    HEADINGS,
    LINES,
    RESOLUTION,
    bin_width,
    connection_count,
    dashed_step,
    table_numbers,
)
from spark_jobs.figures.samples import are_enough, distributions
from spark_jobs.figures.selection import Selection

PAPER = (
    "The paper (Section VI.B): user throughput improves and comes closer to the channel rate as "
    "background traffic increases, as several connections are less sensitive to losses and "
    "timeouts."
)


def sections(selection: Selection) -> list[Section]:
    """Return Fig. 13: user throughput by level of background traffic."""
    rows = distributions(selection, "user_throughput", "user_throughput_received")
    samples = group_rows(rows, "network", "measure", "category")
    levels = sorted({int(row["category"]) for row in rows}, reverse=True) or [0]
    figure = make_subplots(
        rows=len(levels),
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.09,
        subplot_titles=[LEVELS[level] for level in levels],
    )
    width = bin_width(rows)
    table = []
    for place, level in enumerate(levels, 1):
        for network in selection.networks:
            for counted, (label, dash) in COUNTED.items():
                measure = "user_throughput" + ("" if counted == "passed" else "_received")
                user_samples = samples.get((network.name, measure, str(level)), [])
                if user_samples:
                    table.append([LEVELS[level], network.name, label, *table_numbers(user_samples)])
                if are_enough(user_samples):
                    name = f"{network.name} {label}"
                    trace = dashed_step(name, network.colour, dash, user_samples, width)
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
    return [
        Section(
            anchor="fig13",
            title="Fig. 13. User throughput by background traffic",
            source="INFOCOM 2004, Section VI.B",
            caption="All bytes that a user received during a connection above 100 KiB of distinct "
            "payload, over the time from the ACK of its first to that of its last data packet: "
            "R = 8 (Btcp + Bother) / (T2ack − T1ack). "  # noqa: RUF001
            "Levels: the share of background bytes. Levels "
            "without connections are left out. " + LINES + RESOLUTION,
            samples=f"{count(connection_count(rows, 'user_throughput'))} connections",
            figure=figure_html(
                figure,
                "Histograms of user throughput by level of background traffic",
                120 + 190 * len(levels),
            ),
            tables=[NumberTable(["background", "network", "counted", *HEADINGS], table)],
            notes=[PAPER],
        )
    ]
