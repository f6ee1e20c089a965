"""Numbers of stalls with data in flight: duration, recovery, and losses."""

from spark_jobs.figures.dashboard_parts import label_sql
from spark_jobs.figures.format import SECONDS
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import USERS, Numbers, Ratio

INTERRUPTIONS = {"pause": "pause (reselection, handover)", "flush": "flush (preemption)"}
NO_INTERRUPTION = "none"
RESTARTED_BY = {"mobile": "mobile, by an ACK", "server": "server, by data"}
RECOVERED = "if(bin is null, 0, stalls)"
NUMBERS = Numbers(
    mart("recovery_by_restart"),
    [
        Ratio("mean", "mean duration", "seconds", "stalls", SECONDS, "stalls", "none"),
        Ratio("slow_start_after", "then slow start", "if(slow_start, stalls, 0)", "stalls",
              samples="stalls", kind="none"),
        Ratio("lost", "lost, of segments in flight", "lost", "segments", samples="stalls",
              kind="none"),
        Ratio("recovery", "recovered: mean", "recovery_sum", RECOVERED, SECONDS, RECOVERED,
              "none"),
    ],
    {
        "interruption": label_sql("interruption", INTERRUPTIONS, f"'{NO_INTERRUPTION}'"),
        "ended_by": label_sql("ended_by", RESTARTED_BY),
    },
    counts={"stalls": ("stalls", "stalls"), "recovered": ("", RECOVERED)},
    aggregates=USERS,
)  # fmt: skip
