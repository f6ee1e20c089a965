"""The state of every day, held days first, and the data of each network."""

from spark_jobs.figures.charts import raw_table
from spark_jobs.figures.daily_checks.numbers import DAYS_SQL, FRESHNESS_SQL
from spark_jobs.figures.dashboard_parts import Dataset, Metric

TAB = "overview"
DAYS = Dataset("days", DAYS_SQL, [Metric("checked", "count(*)", "days", ",d")], "days")
FRESHNESS = Dataset("freshness", FRESHNESS_SQL, [Metric("networks", "count(*)", "networks", ",d")])
FRESHNESS_TITLE = "Data of each network"
DAYS_TITLE = "Days: held days first, then the newest"
DATA_TITLES = (DAYS_TITLE, FRESHNESS_TITLE)
"""Charts of all days and access technologies, whatever is selected."""
ROWS = [
    [
        raw_table(DAYS_TITLE, DAYS, ["date", "network", "state", "peak hours", "reason"],
                  order="held desc, date desc, network", height=40, width=8),
        raw_table(FRESHNESS_TITLE, FRESHNESS,
                  ["network", "data up to", "held days", "days without captures"],
                  order="network", height=40),
    ],
]  # fmt: skip
