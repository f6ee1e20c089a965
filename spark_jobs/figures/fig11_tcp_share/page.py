"""Fig. 11: the connection's share of its user's bytes."""

from markupsafe import Markup

from spark_jobs.figures.fig11_tcp_share.numbers import NUMBERS, TWENTIETHS
from spark_jobs.figures.figure import Figure, Rows
from spark_jobs.figures.page_elements import error_bars, figure_html
from spark_jobs.figures.selection import Selection


def draw(_: Selection, rows: Rows) -> Markup:
    """Return a histogram of the share."""
    traces = []
    for hours, row in rows:
        network = hours.network
        bars = [(n, row[f"bar_{n}"]) for n in range(TWENTIETHS + 1)]
        shown = [(n / TWENTIETHS, estimate) for n, estimate in bars if estimate.value]
        bars_of_network = {
            "type": "bar",
            "x": [x for x, _ in shown],
            "y": [100 * estimate.value for _, estimate in shown],
            "name": network.name,
            "marker": {"color": network.colour},
            "error_y": error_bars([estimate for _, estimate in shown], 0.01),
            "hovertemplate": "%{x:.2f}: %{y:.1f} %<extra>" + network.name + "</extra>",
        }
        traces += [bars_of_network] if shown else []
    layout = {
        "xaxis": {
            "title": {"text": "The connection's share of its user's bytes"},
            "range": [-0.03, 1.03],
        },
        "yaxis": {"title": {"text": "Share of connections"}, "ticksuffix": " %"},
    }
    label = "Histogram of the connection's share of its user's bytes"
    return figure_html({"data": traces, "layout": layout}, label, 380)


sections = Figure(
    "fig11",
    "Fig. 11. Background traffic during TCP connections",
    "INFOCOM 2004, Section VI.B",
    "The connection's share of all bytes that the user received from the first to the last data "
    "packet of a connection above 100 KiB of distinct payload: Btcp / (Btcp + Bother). 1: the user "
    "received no other bytes meanwhile. Each bar is 1/20 wide.",
    "",
    NUMBERS,
    in_columns=True,
    drawn=draw,
).sections
