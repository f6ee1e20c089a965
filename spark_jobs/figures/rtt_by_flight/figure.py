"""RTT by bytes in flight.

Source: Wennström, Brunstrom and Rendón, Electronics Letters 2004, Figs. 3 and 4.
"""

from markupsafe import Markup

from spark_jobs.figures.figure import Figure, Rows, grouped
from spark_jobs.figures.page_elements import GRID, log_seconds_axis
from spark_jobs.figures.plots import line, plots_html
from spark_jobs.figures.rtt_by_flight.numbers import MIN_FLIGHT_B, NUMBERS
from spark_jobs.figures.selection import Selection


def draw(_: Selection, rows: Rows) -> Markup:
    """Return the median RTT by bytes in flight."""
    traces = []
    for hours, of_hours in grouped(rows):
        shown = [row for row in of_hours if row["median"].value is not None]
        drawn = line(
            hours.name,
            hours.network.colour,
            [row["flight"] for row in shown],
            [row["median"].value for row in shown],
            "%{x:,} B or more in flight: %{y:.2f} s, middle half %{text}",
            hours.dash,
            text=[f"{row.text('first')} to {row.text('third')}" for row in shown],
            marker={"size": 5},
        )
        traces.append((0, 0, drawn | {"mode": "lines+markers"}))
    x = {
        "type": "log",
        "title": {"text": "In flight [B]"},
        "exponentformat": "none",
        "separatethousands": True,
        "tickvals": [1000 * 2**k for k in range(-4, 16)],
        "tickangle": 0,
        **GRID,
    }
    label = "Median RTT by bytes in flight, network and hours"
    return plots_html([[""]], traces, x, log_seconds_axis("Median RTT [s]"), label, 300)


FIGURE = Figure(
    "rtt-by-flight",
    "RTT by bytes in flight",
    "Wennström, Brunstrom and Rendón 2004 (the study of GPRS buffers), Figs. 3 and 4",
    "RTT on the access side during transfers, by bytes in flight when the packet passed Gi. If a "
    "line rises in proportion to the bytes in flight, a queue grows with them: a smaller window or "
    "buffer would cost hardly any throughput. A line may fall at its end, during recovery: many "
    f"bytes are then in flight and few of them wait. Below {MIN_FLIGHT_B} B, possibly delayed ACKs "
    "are left out. Queueing delay: the RTT above the user's smallest of the hour. giscope keeps at "
    "most ten samples per second of a connection, so their number does not indicate the amount of "
    "traffic.",
    "why",
    NUMBERS,
    by={"flight": ("in flight, at least [B]", ())},
    by_hours=True,
    totals="all",
    counted="RTT samples",
    drawn=draw,
    notes=[
        "The study of GPRS buffers (Figs. 3 and 4; one time slot): with more bytes in flight, the "
        "RTT grows from 1 to 48 s if the buffer lifetime is 63 s, and varies between 2 and 9 s if "
        "it is 5 s. The throughput is about the same."
    ],
)
