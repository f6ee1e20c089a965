"""Servers' retransmissions by cause and TCP options.

Sources: Rendón, Casadevall and Faner, Table 2; Kohlwes, Riihijärvi and Mähönen.
"""

from typing import Any

from spark_jobs.figures.format import NOT_MEASURED, PERCENT, count
from spark_jobs.figures.hours import Hours, split_by_hours
from spark_jobs.figures.numbers import Row
from spark_jobs.figures.option_pairs import PAIRS, grid_figure
from spark_jobs.figures.page_elements import NumberTable, Section, unless_empty
from spark_jobs.figures.retransmissions_by_cause.numbers import BY_PAIR, KINDS
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
PAPER_SPURIOUS = (
    "The UMTS study (Sections IV.A and IV.E): practically no losses. Spurious retransmissions were "
    "so rare that F-RTO and Eifel changed nothing; delays rose slowly enough for the timer."
)
STYLES = {
    "data_needed": ("#8fb4d9", ""),
    "data_spurious": ("#8fb4d9", "/"),
    "timer_needed": ("#e69a7a", ""),
    "timer_spurious": ("#e69a7a", "/"),
}
"""By kind of retransmissions: colour and pattern."""


def sections(selection: Selection) -> list[Section]:
    """Return the retransmissions by cause."""
    by_hours = split_by_hours(selection, BY_PAIR.rows(selection, "network", "period", "options"))
    drawn = split_by_hours(selection, KINDS.rows(selection, "network", "period", "options"))
    axis = {"title": {"text": "Share of the data packets [%]"}, "rangemode": "tozero"}
    packets = sum(row["data_packets"] for hours in by_hours for row in hours.rows)
    section = Section(
        anchor="retransmissions",
        title="Retransmissions by cause and TCP options",
        source="Rendón, Casadevall and Faner (the study of TCP options), Table 2; the UMTS study",
        hours="peak and off-peak separately",
        caption="Retransmitted data packets, in % of the data packets at Gi. Data-driven: after "
        "duplicate ACKs or SACK blocks. Timer-driven: after an RTO expiry, in the slow start that "
        "follows, or as a loss probe. Spurious (hatched): the data had arrived; the share is of "
        "retransmissions with a known fate. Spurious RTO expiries: detected by F-RTO, Eifel or "
        "D-SACK, in % of the expiries whose retransmission Gi saw.",
        samples=f"{count(packets)} data packets",
        figure=grid_figure(
            drawn, _bars, axis, "Retransmissions by cause, network, hours and TCP options"
        ),
        tables=[
            NumberTable(
                ["network", "hours", "options", "data packets", *BY_PAIR.labels],
                [
                    *(
                        [
                            hours.network.name,
                            hours.label,
                            pair,
                            count(row["data_packets"]),
                            *row.texts,
                        ]
                        for hours in by_hours
                        for pair in PAIRS
                        for row in hours.rows
                        if row["options"] == pair
                    ),
                    *(
                        ["paper: GPRS, simulated", "", pair, NOT_MEASURED]
                        + [PERCENT.text(share, 1) for share in shares]
                        + [NOT_MEASURED] * (len(BY_PAIR.ratios) - len(shares))
                        for pair, shares in PAPER.items()
                    ),
                ],
            )
        ],
        notes=[PAPER_SPURIOUS],
    )
    return [unless_empty(section, bool(by_hours))]


def _bars(hours: Hours[Row], place: dict[str, str], first: bool) -> list[dict[str, Any]]:
    shown = [row for row in hours.rows if row["data_needed"].value is not None]
    return [
        {
            "type": "bar",
            "orientation": "h",
            "y": [row["options"] for row in shown],
            "x": [100 * row[ratio.name].value for row in shown],
            "name": ratio.label,
            "legendgroup": ratio.label,
            "showlegend": first,
            "marker": {"color": colour, "pattern": {"shape": hatch, "fgcolor": "#ffffff"}},
            "hovertemplate": "%{y}: %{x:.2f} %<extra>" + ratio.label + "</extra>",
            **place,
        }
        for ratio in KINDS.ratios
        for colour, hatch in [STYLES[ratio.name]]
    ]
