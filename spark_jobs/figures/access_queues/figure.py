"""Kinds of queues of the access links; a sample is a user in one hour."""

from spark_jobs.figures.figure import Figure, Shares
from spark_jobs.figures.largest_rtt_by_user.numbers import USERS
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import Numbers, Ratio

KINDS = {
    "fifo": ("FIFO", "#1f6fb4"),
    "early_drop": ("drops early", "#d9822b"),
    "fair": ("fair queueing", "#3a9a5b"),
    "unknown": ("not known", "#b8b8b8"),
}
"""By kind: label and colour."""
FIGURE = Figure(
    "queues",
    "Queues of the access links",
    "RFC 7567; RFC 8289 (CoDel), RFC 8290 (FQ-CoDel), RFC 8033 (PIE)",
    "What the queues in front of the users' access links do. FIFO: keeps the order of a user's "
    "packets, and drops only what has no room. Drops early: drops packets although it has room, to "
    "stay short (CoDel, PIE, RED). Fair queueing: lets packets overtake those of the user's other "
    "connections (FQ-CoDel). Not known: too few losses, and too few packets of several connections "
    "at a time. A user counts once in each hour. This section has no confidence intervals; the "
    "counts show the sample sizes.",
    "giscope-why",
    Numbers(
        mart("largest_rtt_by_user"),
        [
            Ratio(kind, label, f"if(coalesce(queue_kind, 'unknown') = '{kind}', links, 0)", "links",
                  samples="links", kind="none")
            for kind, (label, _) in KINDS.items()
        ],
        counts=USERS,
    ),
    by_hours=True,
    counted="users and hours",
    drawn=Shares("Share of users and hours", {kind: colour for kind, (_, colour) in KINDS.items()}),
)  # fmt: skip
