"""Marks of ECN beside losses, and by local hour."""

from spark_jobs.figures.charts import bars, table
from spark_jobs.figures.dashboard_parts import Dataset
from spark_jobs.figures.dashboard_sql import KEYS, USER_GROUPS
from spark_jobs.figures.ecn_marks.numbers import NUMBERS

PAGE = "giscope-channel"
MARKS = Dataset(
    "marks",
    f"""select {KEYS}, {USER_GROUPS}, flows, ect_packets, counted_packets, marked_internet,
    marked_access
from ecn_marks""",
    [NUMBERS[name].metric for name in ("internet_marks", "access_marks")],
)
ROWS = [
    [
        table("Marks of ECN and losses, with 95 % intervals",
              NUMBERS.dataset("marks_by_side"), ["network", "hours"],
              ["packets", *(ratio.name for ratio in NUMBERS.ratios)],
              order="network || hours"),
    ],
    [
        bars("Packets marked on the Internet side by local hour", MARKS, "hour", "internet_marks",
             "network", x_title="Local hour [h]"),
        bars("Packets marked on the access side by local hour", MARKS, "hour", "access_marks",
             "network", x_title="Local hour [h]"),
    ],
]  # fmt: skip
