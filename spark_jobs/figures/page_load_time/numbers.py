"""The load time, size and connections of pages."""

from spark_jobs.figures.dashboard_parts import label_sql
from spark_jobs.figures.format import KILOBYTES, NUMBER, SECONDS
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import Numbers, Ratio, mean

PARALLEL = {1: "1", 2: "2 to 3", 4: "4 to 7", 8: "8 and more"}
"""Labels of the numbers of parallel connections, by the lowest."""
CONNECTIONS = label_sql("parallel", PARALLEL)
NUMBERS = Numbers(
    mart("page_load_time"),
    [
        mean("load_time", "mean load time", "load_time_sum", SECONDS, "pages", "pages"),
        Ratio("slow", "above 10 s", "above_10_s", "pages", samples="pages"),
        mean("size", "mean size", "ip_bytes", KILOBYTES, "pages", "pages"),
        mean("used", "mean connections", "connections", NUMBER, "pages", "pages"),
    ],
    {"parallel_connections": CONNECTIONS},
    counts={"pages": ("pages", "pages")},
)
