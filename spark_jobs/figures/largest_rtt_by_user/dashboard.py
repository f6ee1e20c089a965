"""The largest RTT of each user."""

from spark_jobs.figures.charts import bars
from spark_jobs.figures.dashboard_parts import Dataset, Metric, if_enough_data
from spark_jobs.figures.dashboard_sql import KEYS, USERS
from spark_jobs.figures.largest_rtt_by_user.numbers import BY_HOUR, LONG_RTT_S

TAB = "why"
LARGEST_RTTS = Dataset(
    "largest_rtts",
    f"""
select {KEYS}, {USERS}, links,
    unnest({list(LONG_RTT_S)}) as above,
    unnest([{", ".join(ratio.numerator for ratio in BY_HOUR.shares)}]) as longer
from largest_rtt_by_user
""",
    [
        Metric(
            "share",
            if_enough_data("sum(longer) / sum(links)", "links"),
            "share of users, by hour",
            ".0%",
        )
    ],
    "users with RTTs",
)
ROWS = [
    [
        bars(f"Users with RTTs above {', '.join(map(str, LONG_RTT_S))} s", LARGEST_RTTS, "above",
             "share", x_title="Largest RTT on the access side above [s]",
             axis_to_100_percent=True),
    ],
]  # fmt: skip
