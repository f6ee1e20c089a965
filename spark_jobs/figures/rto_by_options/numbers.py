"""The RTOs that count, and the share of time in which they were backed off."""

from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import USERS, Numbers, Ratio
from spark_jobs.figures.option_pairs import PAIR

RTOS = f"measure = 'rto' and {PAIR} is not null"
"""Condition on the mart's rows: RTOs of connections with a known pair of options."""
RATIOS = f"measure = 'rto_by_rtt' and {PAIR} is not null"
"""Condition on the mart's rows: ratios of the RTO to the round trip."""
NUMBERS = Numbers(
    mart("rto_by_options"),
    [
        Ratio("backed_off", "share of time backed off", "if(backed_off, seconds, 0)", "seconds",
              samples="changes", kind="none")
    ],
    {"options": PAIR},
    where=RTOS,
    counts={"changes": ("RTO values", "changes")},
    aggregates=USERS,
)  # fmt: skip
