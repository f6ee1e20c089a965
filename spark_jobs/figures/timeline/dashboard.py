"""The lines of one day in five-minute slots, network by network."""

from spark_jobs.figures.charts import lines
from spark_jobs.figures.dashboard_parts import Dataset, Metric, Text
from spark_jobs.figures.timeline.numbers import SHOWN, TIMELINE_SQL

TAB = "timeline"
TEXT = """
**One day in five-minute slots**, in UTC: the last day of each network, or the selected *Dates*.
Numbers are 0 in five minutes that a capture covers; without a capture there is a gap. A mean of
fewer than five connections or three users is a gap, too. To see the connections of a slot, ask for
them in SQL Lab: `select * from flows where start_ts between ...`
"""
VALUES = Dataset(
    "timeline_values",
    TIMELINE_SQL,
    [
        Metric(metric, "max(value)", shown.unit.name or "number", ",.3~r")
        for metric, shown in SHOWN.items()
    ],
)
CHARTS = [
    lines(
        f"{shown.axis_title.removesuffix(' []')}, five minutes",
        VALUES,
        metric,
        by="network",
        x="time",
        where=f"metric = '{metric}'",
        height=40,
    )
    for metric, shown in SHOWN.items()
]
ROWS = [[Text(TEXT, height=16)], *([*CHARTS[n : n + 2]] for n in range(0, len(CHARTS), 2))]
