"""Tables of recovery from interruptions."""

from spark_jobs.figures.charts import table
from spark_jobs.figures.recovery_by_restart.numbers import NUMBERS

PAGE = "giscope-why"
ROWS = [
    [
        table("Recovery after stalls (until all is acknowledged), by interruption and restart",
              NUMBERS.dataset("recovery", "interruption", "ended_by"),
              ["network", "interruption", "ended_by", "hours"],
              ["stalls", *(ratio.name for ratio in NUMBERS.ratios)],
              order="network || interruption || ended_by || hours", height=50),
    ],
]  # fmt: skip
