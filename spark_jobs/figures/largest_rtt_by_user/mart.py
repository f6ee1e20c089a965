"""The columns of the mart largest_rtt_by_user."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import USER_GROUPS, log_bin, place_and_time

MART = Table(
    "largest_rtt_by_user",
    "the users of one local hour, each counted in every hour, of one bin of the "
    "largest RTT on the access side, one bin of the wait in the full queue and one kind of queue",
    (
        *place_and_time("the RTT samples end"),
        log_bin("bin", "the user's largest RTT of the hour in s (links.rtt_max)"),
        log_bin(
            "queue_bin",
            "the wait in the full queue in s (links.queue_s)",
            "there were too few losses to infer it",
        ),
        Column(
            "queue_kind",
            "string",
            "the kind of queue (links.queue_kind): fifo, early_drop or fair. Null if not known",
            source="RFC 7567",
        ),
        *USER_GROUPS,
        Column(
            "links",
            "int64",
            "number of users and hours: a user counts once in every hour with RTT samples",
            "user-hours",
            "Wennström et al., Electronics Letters 2004, Fig. 2",
            required=True,
        ),
        Column(
            "rtt_max_sum",
            "double",
            "sum of their largest RTTs",
            "s",
            required=True,
        ),
        Column(
            "rtt_min_sum",
            "double",
            "sum of their base RTTs: largest RTT less base RTT is queueing delay",
            "s",
            required=True,
        ),
        Column(
            "queue_sum",
            "double",
            "sum of the waits in their full queues; 0 if queue_bin is null",
            "s",
            required=True,
        ),
    ),
    group_columns=("hour", "queue_kind"),
)
