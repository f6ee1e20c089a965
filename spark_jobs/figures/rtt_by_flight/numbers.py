"""The RTT samples that count, and their mean RTT and queueing delay."""

from spark_jobs.figures.format import SECONDS
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import Numbers, Ratio

MIN_FLIGHT_B = 4096
"""Bytes in flight (B) from which an ACK of one segment was not delayed by waiting for a second.

With so many bytes in flight, a second segment was on its way. If the mobile acknowledged only one,
the link had not delivered the second within the ACK delay.
"""
COUNTED_SAMPLES = f"not delayed or flight >= {MIN_FLIGHT_B}"
"""Condition on the mart's rows: samples without a possibly delayed ACK."""
NUMBERS = Numbers(
    mart("rtt_by_flight"),
    [
        Ratio("rtt", "mean RTT", "rtt_sum", "rtt_samples", SECONDS, "rtt_samples", "none"),
        Ratio("queueing", "mean queueing delay", "queueing_sum", "queueing_samples", SECONDS,
              "queueing_samples", "none"),
    ],
    where=COUNTED_SAMPLES,
    counts={"rtt_samples": ("RTT samples", "rtt_samples")},
)  # fmt: skip
