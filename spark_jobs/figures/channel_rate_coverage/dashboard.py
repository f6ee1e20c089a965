"""The traffic whose channel rate is known."""

from spark_jobs.figures.channel_rate_coverage.numbers import NUMBERS
from spark_jobs.figures.charts import table

PAGE = "giscope-channel"
ROWS = [
    [
        table("Fig. 7. Connections above 100 KiB with a channel rate, with 95 % intervals",
              NUMBERS.dataset("rate_coverage", "window"), ["network", "window", "hours"],
              ["flows", "rated", "rated_bytes"], order='network || "window" || hours',
              height=60),
    ],
]  # fmt: skip
