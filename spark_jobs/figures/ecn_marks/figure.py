"""Marks of ECN and losses by side and local hour."""

from markupsafe import Markup

from spark_jobs.figures.figure import Figure, Rows
from spark_jobs.figures.format import PER_1000
from spark_jobs.figures.marts import mart
from spark_jobs.figures.names import MUTED_COLOURS
from spark_jobs.figures.numbers import Numbers, Ratio
from spark_jobs.figures.page_elements import GRID, group_rows
from spark_jobs.figures.plots import line, plots_html
from spark_jobs.figures.selection import Selection

OF_CLASSIC = "case when ecn = 'classic' then ect_packets else 0 end"
NUMBERS = Numbers(
    mart("ecn_marks"),
    [
        Ratio("ecn_share", "packets that can be marked", "ect_packets", "data_packets",
              kind="none"),
        Ratio("internet_marks", "marked on the Internet side", "marked_internet", "ect_packets",
              samples="ect_packets"),
        Ratio("access_marks", "marked on the access side (accurate ECN)", "marked_access",
              "counted_packets", samples="counted_packets"),
        Ratio("access_episodes", "episodes of marks on the access side (classic ECN)",
              "episodes_access", OF_CLASSIC, PER_1000, OF_CLASSIC, "none"),
        Ratio("internet_loss", "lost on the Internet side", "lost_internet",
              "data_packets + lost_internet"),
        Ratio("access_loss", "lost on the access side", "lost_access", "data_packets"),
    ],
    counts={"packets": ("data packets seen at Gi", "data_packets")},
)  # fmt: skip
HOURS = list(range(24))
SIDES = {
    "Internet side": ("internet_marks", "internet_loss"),
    "access side": ("access_marks", "access_loss"),
}
"""By side: the shares of marked and of lost packets."""
LINES = {"marked": MUTED_COLOURS[0], "lost": MUTED_COLOURS[1]}


def draw(selection: Selection, _: Rows) -> Markup:
    """Return a row of plots for each network, with a plot for each side."""
    by_network = group_rows(NUMBERS.rows(selection, "network", "hour"), "network")
    traces = []
    for row, of_network in enumerate(by_network.values()):
        by_hour = {values["hour"]: values for values in of_network}
        for column, measures in enumerate(SIDES.values()):
            for (label, colour), measure in zip(LINES.items(), measures, strict=True):
                shares = [by_hour[h][measure].value if h in by_hour else None for h in HOURS]
                percent = [None if share is None else 100 * share for share in shares]
                hover = "%{x} h: %{y:.2f} %"
                drawn = line(label, colour, HOURS, percent, hover, mode="lines+markers")
                traces.append((row, column, drawn))
    return plots_html(
        [[f"{name}, {side}" for side in SIDES] for (name,) in by_network],
        traces,
        {"title": {"text": "Local hour [h]"}, "range": [-0.5, 23.5], **GRID},
        [{"title": {"text": "Packets [%]"}, "rangemode": "tozero", **GRID}] * 2,
        "Marked and lost packets by network, side and local hour",
        184,
        gap=0.1,
    )


FIGURE = Figure(
    "ecn",
    "Marks of ECN and losses",
    "RFC 3168, RFC 9768, RFC 9331 (L4S)",
    "Downlink packets that routers marked (Explicit Congestion Notification), in % of the packets "
    "that can be marked, and lost packets, in % of the data packets. Marks of the Internet side "
    "are seen at Gi. Those of the access side are counted by mobiles with accurate ECN. With "
    "classic ECN, a mobile reports only that there were marks: an episode lasts until the server "
    "answers, and counts once. The figure is by local hour.",
    "channel",
    NUMBERS,
    by_hours=True,
    counted="data packets",
    drawn=draw,
    needs="ecn_share",
    hourly=["internet_marks", "access_marks"],
)
