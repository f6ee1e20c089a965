"""Servers' retransmissions by cause and TCP options.

Sources: Rendón, Casadevall and Faner, Table 2; Kohlwes, Riihijärvi and Mähönen.
"""

from markupsafe import Markup

from spark_jobs.figures.figure import Figure, Rows
from spark_jobs.figures.hours import split_by_hours
from spark_jobs.figures.option_pairs import BY_PAIR, grid_figure
from spark_jobs.figures.retransmissions_by_cause.numbers import KINDS, NUMBERS
from spark_jobs.figures.selection import Selection

PAPER = {
    "neither": (0.0299, 0.1124),
    "SACK": (0.0330, 0.0173),
    "timestamps": (0.0331, 0.1247),
    "SACK and timestamps": (0.0346, 0.0875),
}
"""By options: shares of data-driven and timer-driven retransmissions.

Source: the study of options, Table 2.
"""
STYLES = {
    "data_needed": ("#8fb4d9", ""),
    "data_spurious": ("#8fb4d9", "/"),
    "timer_needed": ("#e69a7a", ""),
    "timer_spurious": ("#e69a7a", "/"),
}
"""By kind of retransmissions: colour and pattern."""


def draw(selection: Selection, _: Rows) -> Markup:
    """Return bars of the kinds of retransmissions for each pair of options."""
    traces = []
    rows = KINDS.rows(selection, "network", "period", "options")
    for hours in split_by_hours(selection, rows):
        shown = [row for row in hours.rows if row["data_needed"].value is not None]
        for ratio in KINDS.ratios:
            colour, hatch = STYLES[ratio.name]
            bars = {
                "type": "bar",
                "orientation": "h",
                "y": [row["options"] for row in shown],
                "x": [100 * row[ratio.name].value for row in shown],
                "name": ratio.label,
                "marker": {"color": colour, "pattern": {"shape": hatch, "fgcolor": "#ffffff"}},
                "hovertemplate": "%{y}: %{x:.2f} %<extra>" + ratio.label + "</extra>",
            }
            traces.append((hours, bars))
    axis = {"title": {"text": "Share of the data packets [%]"}, "rangemode": "tozero"}
    return grid_figure(traces, axis, "Retransmissions by cause, network, hours and TCP options")


FIGURE = Figure(
    "retransmissions",
    "Retransmissions by cause and TCP options",
    "Rendón, Casadevall and Faner (the study of TCP options), Table 2; the UMTS study",
    "Retransmitted data packets, in % of the data packets at Gi. Data-driven: after duplicate ACKs "
    "or SACK blocks. Timer-driven: after an RTO expiry, in the slow start that follows, or as a "
    "loss probe. Spurious (hatched): the data had arrived; the share is of retransmissions with a "
    "known fate. Spurious RTO expiries: detected by F-RTO, Eifel or D-SACK, in % of the expiries "
    "whose retransmission Gi saw.",
    "why",
    NUMBERS,
    by=BY_PAIR,
    by_hours=True,
    totals="all",
    paper={
        f"paper (GPRS, simulated): {pair}": {"data": data, "timer": timer}
        for pair, (data, timer) in PAPER.items()
    },
    counted="data packets",
    drawn=draw,
    notes=[
        "The UMTS study (Sections IV.A and IV.E): practically no losses. Spurious retransmissions "
        "were so rare that F-RTO and Eifel changed nothing; delays rose slowly enough for the "
        "timer."
    ],
)
