"""Goodput by option and by cluster of options."""

from dataclasses import dataclass

from spark_jobs.figures.dashboard_parts import label_sql
from spark_jobs.figures.format import KBITS
from spark_jobs.figures.numbers import Numbers, mean
from spark_jobs.figures.table3_clusters.mart import MART

LABELS = {
    "mss": {"low": "MSS low", "high": "MSS high"},
    "window": {"low": "Wnd low", "med": "Wnd med", "high": "Wnd high"},
    "sack": {"yes": "SACK", "no": "no SACK"},
    "timestamps": {"yes": "TS", "no": "no TS"},
}
OPTIONS = {
    "mss": "mss_class",
    "window": "window_class",
    "sack": "if(sack, 'yes', 'no')",
    "timestamps": "if(timestamps, 'yes', 'no')",
}
"""SQL of each option's value in the mart, by the option's name in LABELS."""
OPTION_LABELS = {name: label_sql(sql, LABELS[name]) for name, sql in OPTIONS.items()}
"""SQL of the label of each option's value; null for an MSS that is neither low nor high."""
OPTION_COLOURS = {
    label: colour
    for labels in LABELS.values()
    for label, colour in zip(labels.values(), ("#7a6a9b", "#5c7f3b", "#8a5a44"), strict=False)
}
"""Colours of the labels: no network has them."""
GOODPUT = mean("goodput", "mean goodput", "goodput_sum", KBITS)
COUNTS = {
    "flows": ("connections", "flows"),
    "goodput_sum": ("", "goodput_sum"),
    "goodput_squares": ("", "goodput_squares"),
}
DEVIATION = (
    "sqrt(greatest(sum(goodput_squares) - sum(goodput_sum) ^ 2 / sum(flows), 0)"
    " / nullif(sum(flows) - 1, 0))"
)
"""SQL of the sample standard deviation of goodput (bit/s)."""
NUMBERS = Numbers(
    MART, [GOODPUT], OPTION_LABELS, counts=COUNTS, aggregates={"deviation": DEVIATION}
)


@dataclass(frozen=True)
class Figure:
    """One of Figs. 14 to 17; each cluster has a bar for each value of the option."""

    anchor: str
    title: str
    option: str
    values: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Labels of the option's values."""
        return [LABELS[self.option][value] for value in self.values]


FIGURES = (
    Figure("fig14", "Fig. 14. The effect of MSS on goodput", "mss", ("low", "high")),
    Figure("fig15", "Fig. 15. The effect of SACK on goodput", "sack", ("no", "yes")),
    Figure("fig16", "Fig. 16. The effect of timestamps on goodput", "timestamps", ("no", "yes")),
    Figure(
        "fig17",
        "Fig. 17. The effect of the receiver window on goodput",
        "window",
        ("low", "med", "high"),
    ),
)
