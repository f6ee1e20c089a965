"""Causes of stalls (Zhou et al., CoNEXT 2015)."""

from spark_jobs.figures.figure import Figure, Shares
from spark_jobs.figures.stalls_by_class.numbers import (
    NUMBERS,
    STALL_COLOURS,
    STALL_LABELS,
    STALL_WORDS,
)

CAUSES = ", ".join(f"{STALL_LABELS[name]} ({words})" for name, words in STALL_WORDS.items())
FIGURE = Figure(
    "stalls",
    "Causes of stalls",
    "Zhou et al., CoNEXT 2015",
    "A stall is a silence of a connection that is longer than two smoothed RTTs or its RTO. The "
    "figure shows the stalled time by cause: hues for causes on the path, greys for causes at the "
    "hosts, which the operator cannot change. "
    f"The causes: {CAUSES}. Other "
    "users at once: the share of stalls that overlap a stall of another user, as when a radio cell "
    "fails.",
    "why",
    NUMBERS,
    by={"class": ("cause", list(STALL_COLOURS))},
    by_hours=True,
    counted="stalls",
    drawn=Shares("Share of the stalled time", STALL_COLOURS, "class", "seconds"),
)
