"""Fig. 8: connections without loss, with more loss on the access or on the Internet side."""

from spark_jobs.figures.figure import Figure, Shares
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import Numbers, Ratio

SIDES = {
    "none": ("no loss", "#b9d7a8"),
    "access": ("more on the access side", "#e69a7a"),
    "internet": ("more on the Internet side", "#8fb4d9"),
    "equal": ("as many on both", "#c9c9c9"),
}
"""By value of `bottleneck`: label and colour."""
NUMBERS = Numbers(
    mart("fig08_bottleneck"),
    [
        Ratio(f"side_{side}", label, f"if(bottleneck = '{side}', flows, 0)")
        for side, (label, _) in SIDES.items()
    ],
)
FIGURE = Figure(
    "fig08",
    "Fig. 8. Where connections lose packets",
    "INFOCOM 2004, Section V",
    "Connections with downlink data, by the side on which they lost more data packets.",
    "channel",
    NUMBERS,
    paper={"paper: GPRS": {"side_none": 0.47, "side_access": 0.48, "side_internet": 0.05}},
    drawn=Shares(
        "Share of connections", {f"side_{side}": colour for side, (_, colour) in SIDES.items()}
    ),
)
