"""Load time of pages."""

from spark_jobs.figures.charts import bars, table
from spark_jobs.figures.dashboard_parts import Dataset
from spark_jobs.figures.dashboard_sql import KEYS, USER_GROUPS
from spark_jobs.figures.page_load_time.numbers import CONNECTIONS, NUMBERS

PAGE = "giscope-transfers"
PAGES = Dataset(
    "pages_by_hour",
    f"select {KEYS}, {USER_GROUPS}, {CONNECTIONS} as parallel_connections, pages, load_time_sum "
    "from page_load_time",
    [NUMBERS["load_time"].metric],
    "pages",
)
ROWS = [
    [
        bars("Pages: mean load time by local hour", PAGES, "hour", "load_time", "network",
             x_title="Local hour [h]"),
        bars("Pages: mean load time by connections at once", PAGES, "parallel_connections",
             "load_time", "series", x_title="Connections at once"),
    ],
    [
        table("Pages: load time, size and connections, with 95 % intervals",
              NUMBERS.dataset("page_loads"), ["network", "hours"],
              ["pages", *(ratio.name for ratio in NUMBERS.ratios)], order="network || hours"),
    ],
]  # fmt: skip
