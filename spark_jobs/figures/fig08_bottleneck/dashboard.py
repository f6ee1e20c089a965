"""Fig. 8."""

from spark_jobs.figures.charts import share_bars
from spark_jobs.figures.dashboard_parts import Dataset, label_sql
from spark_jobs.figures.dashboard_sql import FLOWS, KEYS, USER_GROUPS, sum_by
from spark_jobs.figures.fig08_bottleneck.numbers import SIDES

PAGE = "giscope-channel"
COLOURS = dict(SIDES.values())
LABELS = {side: label for side, (label, _) in SIDES.items()}
BOTTLENECK = Dataset(
    "bottleneck",
    f"""select {KEYS}, {USER_GROUPS}, flows, {label_sql("bottleneck", LABELS)} as side
from fig08_bottleneck""",
    [FLOWS, sum_by("series", "flows", "connections")],
    "connections that lose packets",
)
ROWS = [
    [
        share_bars("Fig. 8. Where connections lose packets", BOTTLENECK, "side",
                   "flows_by_series", "Share of connections"),
    ],
]  # fmt: skip
