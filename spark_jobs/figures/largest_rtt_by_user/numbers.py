"""The shares of users whose largest RTT is above a time: by hour, and by period with intervals."""

from math import log

from spark_jobs.figures.curves import distribution
from spark_jobs.figures.format import SECONDS
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import Numbers, Ratio

LONG_RTT_S = (1, 5, 10, 30)
"""RTTs that users notice and that exceed common timers (s)."""
EDGES = {limit: round(10 * log(limit)) for limit in LONG_RTT_S}
"""The mart's bin that begins within 1 % of each; five bins of the mart distributions are one."""
USERS = {"links": ("users and hours", "links")}
BY_HOUR = Numbers(
    mart("largest_rtt_by_user"),
    [
        Ratio(
            f"above_{limit}",
            f"above {limit} s",
            f"if(bin >= {edge}, links, 0)",
            "links",
            samples="links",
            kind="none",
        )
        for limit, edge in EDGES.items()
    ],
    counts=USERS,
)
QUEUE_KINDS = {
    "fifo": ("FIFO", "#1f6fb4"),
    "early_drop": ("drops early", "#d9822b"),
    "fair": ("fair queueing", "#3a9a5b"),
    "unknown": ("not known", "#b8b8b8"),
}
"""By kind: label and colour."""
BY_QUEUE = Numbers(
    mart("largest_rtt_by_user"),
    [
        Ratio(kind, label, f"if(coalesce(queue_kind, 'unknown') = '{kind}', links, 0)", "links",
              samples="links", kind="none")
        for kind, (label, _) in QUEUE_KINDS.items()
    ],
    counts=USERS,
)  # fmt: skip
BY_PERIOD = distribution(
    "measure = 'rtt_max'",
    SECONDS,
    (0.5, 0.9, 1),
    "users and hours",
    more=[
        Ratio(f"above_{limit}", f"above {limit} s", f"if(bin >= {5 * edge}, samples, 0)",
              "samples", samples="samples")
        for limit, edge in EDGES.items()
    ],
)  # fmt: skip
