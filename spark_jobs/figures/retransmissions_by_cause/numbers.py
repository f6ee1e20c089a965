"""The shares of data packets that are retransmissions, by cause, and of those that are spurious."""

from spark_jobs.figures.format import PER_1000
from spark_jobs.figures.marts import mart
from spark_jobs.figures.names import with_spaces
from spark_jobs.figures.numbers import Numbers, Ratio
from spark_jobs.figures.option_pairs import PAIR

DATA_CAUSES, TIMER_CAUSES = ("fast",), ("rto", "slow_start", "tlp")
"""Causes of data-driven and of timer-driven retransmissions."""


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


def _sum(causes: tuple[str, ...], suffix: str = "") -> str:
    return " + ".join(f"{cause}{suffix}" for cause in causes)


CAUSE_LABELS = {cause: with_spaces(cause) for cause in CAUSES} | {
    "slow_start": "slow start after an RTO expiry",
    "pmtu": "path MTU",
}
"""Labels of the causes; "slow start" alone is a limit, with a colour of its own."""
ALL_CAUSES = tuple(CAUSES)
TOTAL = _sum(ALL_CAUSES)
DECIDED = f"{TOTAL} - ({_sum(ALL_CAUSES, '_undecided')})"
"""SQL of the retransmissions of which it is known whether they were spurious."""


def _of_packets(name: str, label: str, part: str) -> Ratio:
    return Ratio(name, label, part, "data_packets", samples="data_packets")


NUMBERS = Numbers(
    mart("retransmissions_by_cause"),
    [
        _of_packets("data", "data-driven", _sum(DATA_CAUSES)),
        _of_packets("timer", "timer-driven", _sum(TIMER_CAUSES)),
        Ratio(
            "spurious",
            "spurious retransmissions",
            _sum(ALL_CAUSES, "_spurious"),
            DECIDED,
            samples=DECIDED,
        ),
        Ratio(
            "expiries",
            "RTO expiries, of data packets",
            "rto_expiries",
            "data_packets",
            PER_1000,
            "data_packets",
            "none",
        ),
        Ratio(
            "spurious_expiries",
            "spurious RTO expiries",
            "spurious_rto_expiries",
            "rto",
            samples="rto",
        ),
    ],
    {"options": PAIR},
    where="sack is not null and timestamps is not null and data_packets > 0",
    counts={"data_packets": ("data packets", "data_packets")},
)
KINDS = Numbers(
    mart("retransmissions_by_cause"),
    [
        _of_packets(kind, label, f"{_sum(causes)} - ({spurious})" if needed else spurious)
        for kind, label, causes, needed in (
            ("data_needed", "data-driven", DATA_CAUSES, True),
            ("data_spurious", "data-driven, spurious", DATA_CAUSES, False),
            ("timer_needed", "timer-driven", TIMER_CAUSES, True),
            ("timer_spurious", "timer-driven, spurious", TIMER_CAUSES, False),
        )
        for spurious in [_sum(causes, "_spurious")]
    ],
    {"options": PAIR},
    where=NUMBERS.where,
    counts=NUMBERS.counts,
)  # fmt: skip
"""The same retransmissions as the parts of bars."""
BY_CAUSE = Numbers(
    mart("retransmissions_by_cause"),
    [
        _of_packets(name, label, sql)
        for cause, words in CAUSE_LABELS.items()
        for name, label, sql in (
            (cause, words, f"{cause} - {cause}_spurious"),
            (f"{cause}_spurious", f"{words}, spurious", f"{cause}_spurious"),
        )
    ],
    counts=NUMBERS.counts,
)
"""Retransmissions by each cause."""
