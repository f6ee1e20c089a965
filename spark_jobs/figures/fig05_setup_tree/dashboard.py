"""Fig. 5."""

from dataclasses import replace

from spark_jobs.figures.charts import pivot, share_bars
from spark_jobs.figures.dashboard_parts import Dataset, Metric
from spark_jobs.figures.dashboard_sql import FLOWS, KEYS, USER_GROUPS
from spark_jobs.figures.fig05_setup_tree.numbers import AREA, AREAS, BACKGROUND, NUMBERS, OUTCOME

TAB = "setup"
COLOURS = {area.name: area.colour for area in AREAS}
SETUP_TREE = Dataset(
    "setup_tree",
    f"""
select {KEYS}, {OUTCOME} as outcome, {AREA} as area, {BACKGROUND} as background, flows,
    {USER_GROUPS}
from fig05_setup_tree
""",
    [FLOWS, Metric("setups", "sum(flows)", "share of set-ups", "")],
    "set-ups",
)
SETUP_DELAYS = replace(NUMBERS, where="delay_flows > 0").dataset(
    "setup_delays", "area", "background"
)
ROWS = [
    [
        share_bars("Fig. 5. Connection set-up categories", SETUP_TREE, "area", "flows",
                   "Share of set-ups"),
    ],
    [
        pivot("Fig. 5. Mean set-up delay, with 95 % intervals", SETUP_DELAYS,
              ["mean_delay"], rows=["area", "background"], columns=["network", "hours"],
              text=True, height=64),
    ],
    [
        pivot("Fig. 5. Connection set-up classification tree, share of set-ups", SETUP_TREE,
              ["setups"], rows=["outcome", "area", "background"],
              columns=["network", "hours"], share=True, height=96),
    ],
]  # fmt: skip
