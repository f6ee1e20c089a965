"""The columns of the mart retransmissions_by_cause."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import FLOW_COUNT, OPTIONS, PLACE_AND_TIME, USER_GROUP

CAUSES = {
    "fast": "on duplicate ACKs or SACK blocks, and in the rest of that recovery",
    "rto": "after an RTO expiry",
    "slow_start": "in the slow start after an RTO expiry, on ACKs",
    "tlp": "as a loss probe",
    "pmtu": "on ICMP's message that packets were too big for the path",
    "unknown": "for an unknown cause",
}
"""Causes of retransmissions, as in the table retransmissions (unknown: null there).

fast is driven by data; rto, slow_start and tlp are driven by a timer; pmtu by ICMP.
"""

MART = Table(
    "retransmissions_by_cause",
    "the connections of one local hour, one pair of TCP options and one user group, "
    "with the retransmissions of their servers and the causes. Only connections with "
    "known retransmissions count",
    (
        *PLACE_AND_TIME,
        *OPTIONS,
        USER_GROUP,
        FLOW_COUNT,
        Column(
            "data_packets",
            "int64",
            "downlink packets with data seen at Gi, retransmissions included",
            "packets",
            "Rendón, Casadevall and Faner, Table 2",
            required=True,
        ),
        *(
            Column(name, "int64", text, "packets", source, required=True)
            for cause, circumstance in CAUSES.items()
            for name, text, source in (
                (
                    cause,
                    f"retransmissions (data, FINs) seen at Gi that were sent {circumstance}",
                    "RFC 5681, 6298, 6675, 8985",
                ),
                (
                    f"{cause}_spurious",
                    "of these, spurious retransmissions: their data had arrived",
                    "RFC 3522",
                ),
                (
                    f"{cause}_undecided",
                    "of these, retransmissions that may be spurious or not, FINs among them",
                    "",
                ),
            )
        ),
        Column(
            "synack",
            "int64",
            "retransmissions of SYN ACKs, which are never checked for being spurious",
            "packets",
            required=True,
        ),
        Column(
            "new_data_probes",
            "int64",
            "loss probes with data that was not sent before: no retransmissions",
            "packets",
            "RFC 8985, 7.3",
            required=True,
        ),
        Column(
            "rto_expiries",
            "int64",
            "expiries of the servers' retransmission timers, backed off or not, for data or "
            "SYN ACKs, whether Gi saw what the servers sent then or not (flows.rto_expiries)",
            "expiries",
            "RFC 6298",
            required=True,
        ),
        Column(
            "spurious_rto_expiries",
            "int64",
            "of rto, spurious RTO expiries by any sign (retransmissions.spurious_by)",
            "expiries",
            "RFC 5682, 3522, 3708",
            required=True,
        ),
        Column(
            "frto_rto_expiries",
            "int64",
            "of these, expiries that the server can detect by F-RTO (retransmissions.spurious_rto)",
            "expiries",
            "RFC 5682",
            required=True,
        ),
    ),
    group_columns=("hour", "sack", "timestamps"),
)
