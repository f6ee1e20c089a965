"""The shares of connections by the side on which they lost more packets."""

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
        Ratio(side, label, f"if(bottleneck = '{side}', flows, 0)")
        for side, (label, _) in SIDES.items()
    ],
)
