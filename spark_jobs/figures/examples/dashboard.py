"""Examples of limits and stalls."""

from spark_jobs.figures.charts import raw_table
from spark_jobs.figures.connection_links import LINK_SQL
from spark_jobs.figures.dashboard_parts import Dataset, Metric
from spark_jobs.figures.dashboard_sql import KEYS

TAB = "why"
EXAMPLES = Dataset(
    "examples",
    f"""
select {KEYS}, if(kind = 'limit', 'limit: ', 'stall: ') || replace(cause, '_', ' ') as cause,
    round(held_up, 1) as "time [s]", {LINK_SQL} as connection
from examples
""",
    [Metric("connections", "count(*)", "connections", ",d")],
)
ROWS = [
    [
        raw_table("Examples: the connection that each cause delayed most, by hour",
                  EXAMPLES,
                  ["network", "date", "hour", "hours", "cause", "time [s]", "connection"],
                  order="date desc, network, hour, cause", height=70),
    ],
]  # fmt: skip
