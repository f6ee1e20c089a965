"""The columns of the mart stalls_by_class."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import USER_GROUPS, place_and_time

MART = Table(
    "stalls_by_class",
    "the stalls that began in one local hour, of one class, one duration and one "
    "number of users at once",
    (
        *place_and_time("the stall begins"),
        Column("class", "string", "class of the stalls, as in stalls", required=True),
        Column(
            "bin",
            "double",
            "lower edge of the bin of the stall's duration: 0.1 s times half powers of two "
            "(0.1, 0.141, 0.2, 0.283, ...). 0 below 0.1 s",
            "s",
            required=True,
        ),
        Column(
            "users_at_once",
            "int64",
            "number of users of the network with a stall that overlaps this one in time, its "
            "own user included and each user counted once: lower edge of 1, 2, 3-4, 5-8, "
            "9-16, ... Many users at once suggest that a radio cell is the cause. Only stalls "
            "of the date that depend on the path count. data_unavailable, client_idle and "
            "zero_window depend on the hosts: they do not count and have null here",
            "users",
        ),
        *USER_GROUPS,
        Column("stalls", "int64", "number of stalls", "stalls", required=True),
        Column("seconds", "double", "sum of their durations", "s", required=True),
        Column(
            "lost_stalls",
            "int64",
            "of these, stalls for which the fate of the segments in flight is known",
            "stalls",
            required=True,
        ),
        Column(
            "lost",
            "int64",
            "segments in flight in these that were lost on the access side",
            "segments",
            "INFOCOM V",
            required=True,
        ),
        Column(
            "rto_stalls",
            "int64",
            "of all, stalls that an RTO expiry ended, so that the server is in slow start "
            "(stalls.slow_start)",
            "stalls",
            "RFC 5681, 3.1",
            required=True,
        ),
        *(
            Column(
                name,
                "int64",
                f"of all, those that show {meaning} (stalls.interruption)",
                "stalls",
                required=True,
            )
            for name, meaning in (
                ("pauses", "a reselection or a handover"),
                ("flushes", "a preemption"),
            )
        ),
    ),
    group_columns=("hour", "class", "users_at_once"),
)
