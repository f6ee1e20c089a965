"""Kinds of queues of the access links; a sample is a user in one hour."""

from spark_jobs.figures.figure import Figure, Shares
from spark_jobs.figures.largest_rtt_by_user.numbers import BY_QUEUE, QUEUE_KINDS

FIGURE = Figure(
    "queues",
    "Queues of the access links",
    "RFC 7567; RFC 8289 (CoDel), RFC 8290 (FQ-CoDel), RFC 8033 (PIE)",
    "What the queues in front of the users' access links do. FIFO: keeps the order of a user's "
    "packets, and drops only what has no room. Drops early: drops packets although it has room, to "
    "stay short (CoDel, PIE, RED). Fair queueing: lets packets overtake those of the user's other "
    "connections (FQ-CoDel). Not known: too few losses, and too few packets of several connections "
    "at a time. A user counts once in each hour.",
    "why",
    BY_QUEUE,
    by_hours=True,
    counted="users and hours",
    drawn=Shares(
        "Share of users and hours", {kind: colour for kind, (_, colour) in QUEUE_KINDS.items()}
    ),
)
