"""Fig. 3: histograms of the set-up delay, for all set-ups and the paper's four categories."""

from spark_jobs.figures.curves import Curves, distribution
from spark_jobs.figures.dashboard_parts import label_sql
from spark_jobs.figures.fig03_setup_delay.numbers import BIN_S, CATEGORIES, SHOWN_S
from spark_jobs.figures.figure import Figure
from spark_jobs.figures.format import MILLISECONDS, SECONDS
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import Numbers, Ratio

MEASURE = "measure = 'setup_delay'"
NAMES = {
    label: ("single" if single else "repeated") + (" background" if background else "")
    for label, (single, background) in CATEGORIES.items()
}
"""Categories of the mart distributions by label."""
SHARES = Numbers(
    mart("distributions"),
    [
        Ratio(name, label, f"if(category = '{name}', samples, 0)", "samples", samples="samples")
        for label, name in NAMES.items()
    ],
    where=MEASURE,
    counts={"samples": ("set-ups", "samples")},
)
sections = Figure(
    "fig03",
    "Fig. 3. Connection set-up time components",
    "INFOCOM 2004, Section III.A",
    "Time from the first SYN to the first ACK at Gi. The four lower histograms add up to the "
    "uppermost. 1+ SYN and/or 1+ SYN ACK, as in the paper: at least one was retransmitted. "
    "Background traffic: another packet of the user within 5 s before the first SYN, or during the "
    f"set-up. The axis ends at {SHOWN_S:.0f} s.",
    "",
    distribution(
        MEASURE,
        MILLISECONDS,
        (0.5, 0.9),
        "set-ups",
        {"label": label_sql("category", {name: label for label, name in NAMES.items()})},
    ),
    by={"label": ("category", list(CATEGORIES))},
    totals="overall",
    more={"Shares of the categories": SHARES},
    counted="completed set-ups",
    drawn=Curves("Set-up delay", SECONDS, "set-ups", "histogram", "label", width=BIN_S,
                 end=SHOWN_S, of_all=True),
    notes=[
        "The paper (Section III.A): a peak around one second and a tail of 5 to 10 s. With one "
        "SYN, one SYN ACK and no background traffic, the delay is almost deterministic. Background "
        "traffic dominates the tail."
    ],
).sections  # fmt: skip
