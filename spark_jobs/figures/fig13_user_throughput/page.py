"""Fig. 13: throughput of users with background traffic."""

from spark_jobs.figures.curves import COUNTED, COUNTED_TEXT, RESOLUTION, Curves, rates
from spark_jobs.figures.dashboard_parts import label_sql
from spark_jobs.figures.fig13_user_throughput.numbers import LEVELS
from spark_jobs.figures.figure import Figure
from spark_jobs.figures.format import KBITS

sections = Figure(
    "fig13",
    "Fig. 13. User throughput by background traffic",
    "INFOCOM 2004, Section VI.B",
    "All bytes that a user received during a connection above 100 KiB of distinct payload, over "
    "the time from the ACK of its first to that of its last data packet: "
    "R = 8 (Btcp + Bother) / (T2ack − T1ack). "  # noqa: RUF001
    "Levels: the share of background bytes. Levels without connections are left out. "
    f"{COUNTED_TEXT}{RESOLUTION}",
    "",
    rates(
        "user_throughput",
        level=label_sql("category", {str(n): label for n, label in LEVELS.items()}),
    ),
    by={
        "level": ("background", list(reversed(LEVELS.values()))),
        "counted": ("counted", COUNTED),
    },
    drawn=Curves("User throughput", KBITS, "connections", "histogram", "level", dashed="counted"),
    notes=[
        "The paper (Section VI.B): user throughput improves and comes closer to the channel rate "
        "as background traffic increases, as several connections are less sensitive to losses and "
        "timeouts."
    ],
).sections
