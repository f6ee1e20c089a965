"""The largest RTT of each user.

Source: Wennström, Brunstrom and Rendón, Electronics Letters 2004, Fig. 2.
"""

from spark_jobs.figures.curves import Curves, distribution
from spark_jobs.figures.figure import Figure
from spark_jobs.figures.format import SECONDS
from spark_jobs.figures.largest_rtt_by_user.numbers import BY_PERIOD

PAPER = {(63, 1): 48.0, (63, 3): 17.0, (5, 1): 9.0, (5, 3): 8.0}
"""RTT (s) by buffer lifetime (s) and time slots; the study of buffers, Fig. 2 and its text."""

sections = Figure(
    "largest-rtt",
    "Largest RTT by user",
    "Wennström, Brunstrom and Rendón 2004 (the study of GPRS buffers), Fig. 2",
    "The largest RTT on the access side for each user and hour: the longest time that a packet "
    "waits in the buffer. Full queue: the time that a packet waits in a full queue, for users with "
    "enough losses to estimate it. A user counts once in each hour.",
    "",
    BY_PERIOD,
    by_hours=True,
    more={
        "Full queue": distribution("measure = 'queue_s'", SECONDS, (0.5, 0.9), "users and hours")
    },
    paper={
        f"paper: buffer of {lifetime} s, {slots} slot{'s' * (slots > 1)}": {"quantile_2": value}
        for (lifetime, slots), value in PAPER.items()
    },
    counted="users and hours",
    drawn=Curves("Largest RTT of the hour", SECONDS, "users and hours", "above",
                 is_logarithmic=True),
).sections  # fmt: skip
