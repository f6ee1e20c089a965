"""The columns of the mart recovery_by_restart."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import USER_GROUPS, log_bin, place_and_time

MART = Table(
    "recovery_by_restart",
    "the stalls that began in one local hour with data in flight, of one kind of "
    "interruption, by the end that ended them and by recovery time",
    (
        *place_and_time("the stall begins"),
        Column(
            "interruption",
            "string",
            "pause (a reselection or a handover) or flush (a preemption), as in stalls. Null "
            "if no interruption shows",
            source="Wennström, Brunstrom and Rendón, GPRS preempted by calls",
        ),
        Column(
            "ended_by",
            "string",
            "end that restarted the transfer: mobile (by an ACK) or server (by a "
            "retransmission or new data)",
            source="Wennström, Brunstrom and Rendón, GPRS preempted by calls",
            required=True,
        ),
        Column(
            "slow_start",
            "bool",
            "whether an RTO expiry ended the stall, so that the server is in slow start",
            source="RFC 5681, 3.1",
            required=True,
        ),
        log_bin(
            "bin",
            "the recovery time in s (stalls.recovery)",
            "the data is never acknowledged",
        ),
        *USER_GROUPS,
        Column("stalls", "int64", "number of stalls", "stalls", required=True),
        Column("seconds", "double", "sum of their durations", "s", required=True),
        Column(
            "recovery_sum",
            "double",
            "sum of their recovery times; 0 if bin is null",
            "s",
            required=True,
        ),
        Column(
            "segments",
            "int64",
            "segments in flight when they began",
            "segments",
            required=True,
        ),
        Column(
            "lost",
            "int64",
            "of these, segments known to be lost on the access side",
            "segments",
            "INFOCOM V",
            required=True,
        ),
    ),
    group_columns=("hour", "interruption", "ended_by", "slow_start"),
)
