"""Pages: load time, size and connections, at peak and off-peak.

Source: Kohlwes, Riihijärvi and Mähönen, Fig. 4.
"""

from spark_jobs.figures.dashboard_parts import label_sql
from spark_jobs.figures.figure import Bars, Figure
from spark_jobs.figures.format import KILOBYTES, NUMBER, SECONDS
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import Numbers, Ratio, mean

PARALLEL = {1: "1", 2: "2 to 3", 4: "4 to 7", 8: "8 and more"}
"""Labels of the numbers of parallel connections, by the lowest."""
NUMBERS = Numbers(
    mart("page_load_time"),
    [
        mean("load_time", "mean load time", "load_time_sum", SECONDS, "pages", "pages"),
        Ratio("slow", "above 10 s", "above_10_s", "pages", samples="pages"),
        mean("size", "mean size", "ip_bytes", KILOBYTES, "pages", "pages"),
        mean("used", "mean connections", "connections", NUMBER, "pages", "pages"),
    ],
    {"parallel_connections": label_sql("parallel", PARALLEL)},
    counts={"pages": ("pages", "pages")},
)
FIGURE = Figure(
    "pages",
    "Pages",
    "Kohlwes, Riihijärvi and Mähönen (the UMTS study), Fig. 4; Smith et al., 2001",
    "A page is a burst of a user's connections after more than a second of rest. Load time: from "
    "the first SYN, request or data to the ACK of the last data. Pages that use more connections "
    "are also larger, so the bars do not show what more connections would change. kB: 1,000 B.",
    "transfers",
    NUMBERS,
    by={"parallel_connections": ("connections at once", list(PARALLEL.values()))},
    by_hours=True,
    totals="all",
    counted="pages",
    drawn=Bars(
        "parallel_connections",
        "Connections of a page at once",
        "Mean load time [s]",
        ["load_time"],
    ),
    hourly=["load_time"],
)
