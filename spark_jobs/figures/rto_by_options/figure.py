"""The servers' RTO by TCP options.

Sources: Rendón, Casadevall and Faner, Figs. 4 and 5; Kohlwes, Riihijärvi and Mähönen, Fig. 2.
"""

from markupsafe import Markup

from spark_jobs.figures.figure import Figure, Rows, grouped
from spark_jobs.figures.format import NUMBER, SECONDS
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import LogQuantile, Numbers, Ratio
from spark_jobs.figures.option_pairs import BY_PAIR, PAIR, grid_figure
from spark_jobs.figures.selection import Selection

QUANTILES = {
    "low": ("10th percentile", 0.1),
    "first": ("1st quartile", 0.25),
    "median": ("median", 0.5),
    "third": ("3rd quartile", 0.75),
    "high": ("90th percentile", 0.9),
}
"""Label and level by name."""
SECONDS_OF_RTO = "if(measure = 'rto', seconds, 0)"
CHANGES = "if(measure = 'rto', changes, 0)"
NUMBERS = Numbers(
    mart("rto_by_options"),
    [
        *(
            LogQuantile(name, label, level, SECONDS, SECONDS_OF_RTO, CHANGES)
            for name, (label, level) in QUANTILES.items()
        ),
        LogQuantile("by_rtt", "median RTO / RTT", 0.5, NUMBER,
                    "if(measure = 'rto_by_rtt', seconds, 0)",
                    "if(measure = 'rto_by_rtt', changes, 0)"),
        Ratio("backed_off", "share of time backed off", f"if(backed_off, {SECONDS_OF_RTO}, 0)",
              SECONDS_OF_RTO, samples=CHANGES, kind="none"),
    ],
    {"options": PAIR},
    where=f"{PAIR} is not null",
    counts={"changes": ("RTO values", CHANGES)},
)  # fmt: skip


def draw(_: Selection, rows: Rows) -> Markup:
    """Return the median and the spread of the RTO for each pair of options."""
    traces = []
    for hours, of_hours in grouped(rows):
        shown = {
            row["options"]: [row[name].value for name in QUANTILES]
            for row in of_hours
            if row["median"].value is not None
        }
        colour = hours.network.colour
        for low, width in ((0, 1.5), (1, 7)):
            spread = {
                "type": "scatter",
                "mode": "lines",
                "x": [x for q in shown.values() for x in (q[low], q[4 - low], None)],
                "y": [name for pair in shown for name in (pair, pair, None)],
                "line": {"color": colour, "width": width},
                "showlegend": False,
                "hoverinfo": "skip",
            }
            traces.append((hours, spread))
        dots = {
            "type": "scatter",
            "mode": "markers",
            "x": [q[2] for q in shown.values()],
            "y": list(shown),
            "text": [
                f"half of the time {SECONDS.text(q[1])} to {SECONDS.text(q[3])}"
                for q in shown.values()
            ],
            "marker": {"color": "#ffffff", "size": 9, "line": {"color": colour, "width": 2}},
            "showlegend": False,
            "hovertemplate": "%{y}: %{x:.2f} s, %{text}<extra>" + hours.name + "</extra>",
        }
        traces.append((hours, dots))
    axis = {
        "title": {"text": "RTO [s]"},
        "type": "log",
        "tickvals": [0.2, 0.5, 1, 2, 5, 10, 20, 50, 100],
    }
    return grid_figure(traces, axis, "RTO by network, hours and TCP options")


FIGURE = Figure(
    "rto",
    "RTO by TCP options",
    "Rendón, Casadevall and Faner (the study of TCP options), Figs. 4 and 5",
    "The servers' RTO, computed from the RTTs that they measured, weighted by the time for which "
    "each value was in effect. Dot: median. Thick line: half of the time. Thin line: four fifths "
    "of the time. RTO / RTT: the RTO over the latest RTT. Near 1, the timer expires at the next "
    "delay; far above 1, a loss remains undetected for long. Backed off: doubled after an expiry.",
    "why",
    NUMBERS,
    by=BY_PAIR,
    by_hours=True,
    counted="RTO values",
    drawn=draw,
    notes=[
        "The study of options (Figs. 4 and 5, Section IV.3; simulated servers): with timestamps "
        "the RTO varies between 20 and 120 s, even 200 s, ten times its minimum, and expires "
        "spuriously. If this network behaves alike, the quartiles lie further apart with "
        "timestamps than without. The UMTS study (Fig. 2): handovers change the RTO."
    ],
)
