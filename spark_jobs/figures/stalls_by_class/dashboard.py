"""Users that stall at once."""

from spark_jobs.figures.charts import share_bars
from spark_jobs.figures.dashboard_parts import Dataset, Metric, Text, label_sql, literal
from spark_jobs.figures.dashboard_sql import KEYS, USERS
from spark_jobs.figures.names import paler
from spark_jobs.figures.stalls_by_class.numbers import HOST_STALLS, STALL_LABELS

TAB = "why"
USERS_AT_ONCE = {1: " 1", 2: " 2", 3: " 3 to 4", 5: " 5 to 8", 9: " 9 to 16", 17: "17 to 32"}
"""Labels of the numbers of users that stall at once, by the lowest; leading blanks sort them."""
MOST_USERS_AT_ONCE = "33 and more"
COLOURS = {
    label: paler("#8c2d04", share)
    for label, share in zip(
        [*USERS_AT_ONCE.values(), MOST_USERS_AT_ONCE],
        (0.9, 0.75, 0.6, 0.45, 0.3, 0.15, 0),
        strict=True,
    )
}
STALLS = Dataset(
    "stalls_at_once",
    f"""
select {KEYS}, {USERS}, seconds, users_at_once,
    {label_sql("users_at_once", USERS_AT_ONCE, literal(MOST_USERS_AT_ONCE))} as at_once
from stalls_by_class
""",
    [Metric("seconds", "sum(seconds)", "time in stalls [s]", ",.0f")],
    "stalls",
)
TEXT = f"""
**Stalls on the path** are all but those of three classes, which depend on the hosts:
{", ".join(STALL_LABELS[name] for name in HOST_STALLS)}. The chart leaves these out.

Users of one network whose stalls overlap count as stalling at once.
"""
ROWS = [
    [
        share_bars("Time in stalls on the path, by number of users that stall at once", STALLS,
                   "at_once", "seconds", "Share of the time in stalls on the path",
                   where="users_at_once is not null", width=8),
        Text(TEXT, height=50),
    ],
]  # fmt: skip
