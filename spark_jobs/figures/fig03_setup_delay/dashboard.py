"""Fig. 3."""

from spark_jobs.figures.charts import bars, cumulative, histogram
from spark_jobs.figures.dashboard_parts import Dataset, histogram_outline
from spark_jobs.figures.dashboard_sql import FLOWS, KEYS, USERS, share_of_series, sum_of_series
from spark_jobs.figures.fig03_setup_delay.numbers import BIN_S, CATEGORIES, SHOWN_S
from spark_jobs.figures.format import SECONDS
from spark_jobs.figures.numbers import Ratio

TAB = "setup"
CATEGORY_WHENS = " ".join(
    f"when single = {single} and background = {background} then '{label}'"
    for label, (single, background) in CATEGORIES.items()
)
SETUP_DELAY = Dataset(
    "setup_delay",
    histogram_outline(
        f"{KEYS}, {USERS}, case {CATEGORY_WHENS} end as category",
        ["flows", "delay_sum"],
        "fig03_setup_delay",
        f"least(bin, {SHOWN_S})",
        str(BIN_S),
        "delay",
    ),
    [
        FLOWS,
        sum_of_series("flows", "set-ups"),
        share_of_series("flows", "share of set-ups"),
        Ratio("mean_delay", "mean set-up delay", "delay_sum", unit=SECONDS).metric,
    ],
    "set-ups",
)
ROWS = [
    [
        histogram("Fig. 3. Connection set-up delay", SETUP_DELAY, "delay", "flows_of_series",
                  f"Set-up delay [s], last step: {SHOWN_S:.0f} s and more",
                  f"Share of set-ups per {BIN_S} s"),
        cumulative("Fig. 3. Set-up delay, peak and off-peak", SETUP_DELAY, "delay_below",
                   "Set-up delay [s]", "Cumulative share of set-ups"),
    ],
    [
        bars("Fig. 3. Share of set-ups by component", SETUP_DELAY, "category", "share",
             horizontal=True, y_title="Share of set-ups", where="flows > 0",
             height=40),
    ],
    [
        bars("Fig. 3. Mean set-up delay by component", SETUP_DELAY, "category", "mean_delay",
             horizontal=True, where="flows > 0", height=40),
    ],
]  # fmt: skip
