"""Fig. 9: throughput of large single transfers."""

import plotly.graph_objects as go

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
    "The paper (Section VI.A): most of the distribution lies around the channel rate's peaks. Slow "
    "start and losses explain the rest."
)


def sections(selection: Selection) -> list[Section]:
    """Return Fig. 9: throughput of single transfers."""
    rows = distributions(selection, "throughput", "throughput_received")
    samples = group_rows(rows, "network", "measure")
    figure, table = go.Figure(), []
    width = bin_width(rows)
    for network in selection.networks:
        for counted, (label, dash) in COUNTED.items():
            measure = "throughput" if counted == "passed" else "throughput_received"
            user_samples = samples.get((network.name, measure), [])
            if user_samples:
                table.append([network.name, label, *table_numbers(user_samples)])
            if are_enough(user_samples):
                name = f"{network.name} {label}"
                figure.add_trace(dashed_step(name, network.colour, dash, user_samples, width))
    figure.update_xaxes(title_text="Throughput [kbit/s]", rangemode="tozero")
    figure.update_yaxes(
        title_text=f"Share of connections per {width / 1000:g} kbit/s",
        ticksuffix=" %",
        rangemode="tozero",
    )
    return [
        Section(
            anchor="fig09",
            title="Fig. 9. Throughput of single, large TCP connections",
            source="INFOCOM 2004, Section VI.A",
            caption="Single connections (no other traffic of the user) above 100 KiB of distinct "
            "payload with one request and its response. Throughput is IP bytes over the time from "
            "the ACK of the first to the ACK of the last data packet. " + LINES + RESOLUTION,
            samples=f"{count(connection_count(rows, 'throughput'))} connections",
            figure=figure_html(figure, "Histograms of single-flow throughput by network", 400),
            tables=[NumberTable(["network", "counted", *HEADINGS], table)],
            notes=[PAPER],
        )
    ]
