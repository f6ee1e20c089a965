"""Interruptions of the link, and how transfers recover.

Source: Wennström, Brunstrom and Rendón on preemption by calls, Table I.
"""

from spark_jobs.figures.dashboard_parts import label_sql
from spark_jobs.figures.figure import Figure
from spark_jobs.figures.format import SECONDS
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import LogQuantile, Numbers, Ratio

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
        LogQuantile("median", "recovered: median", 0.5, SECONDS, "stalls", "stalls"),
        LogQuantile("high", "recovered: 90th percentile", 0.9, SECONDS, "stalls", "stalls"),
    ],
    {
        "interruption": label_sql("interruption", INTERRUPTIONS, f"'{NO_INTERRUPTION}'"),
        "ended_by": label_sql("ended_by", RESTARTED_BY),
    },
    where="ended_by is not null",
    counts={
        "stalls": ("stalls", "stalls"),
        "never": ("never recovered", "if(bin is null, stalls, 0)"),
    },
)  # fmt: skip
FIGURE = Figure(
    "interruptions",
    "Interruptions of the link",
    "Wennström, Brunstrom and Rendón (the study of preemption by calls), Table I",
    "Stalls with data in flight during which the mobile sent no packet. Pause: the data in flight "
    "arrived late. Flush: the first data in flight was lost, the rest arrived. None: all other "
    "such stalls. Restarted by: the mobile with an ACK, or the server with data. Recovered: time "
    "from the beginning until all data in flight is acknowledged.",
    "why",
    NUMBERS,
    by={
        "interruption": ("interruption", (*INTERRUPTIONS.values(), NO_INTERRUPTION)),
        "ended_by": ("restarted by", list(RESTARTED_BY.values())),
    },
    by_hours=True,
    counted="stalls",
    notes=[
        "The study of preemption (Section III): calls of 3 and 6 s end with an ACK that the mobile "
        "had buffered, and congestion avoidance follows. Calls of 15 s end with the server's "
        "retransmission, and slow start follows. The recovery takes about 20 s, as almost ten "
        "segments in a row are lost. Table I, for transfers that calls of 3, 6 and 15 s preempted "
        "every minute: throughput 21.6, 22.2 and 21.3 kbit/s; 7.0, 6.6 and 7.0 % retransmitted; "
        "mean RTT 2.9, 3.1 and 3.3 s."
    ],
)
