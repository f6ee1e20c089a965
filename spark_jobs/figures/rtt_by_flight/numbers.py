"""The RTT samples that count, their RTT and queueing delay."""

from spark_jobs.figures.format import SECONDS
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import LogQuantile, Numbers, Ratio

MIN_FLIGHT_B = 4096
"""Bytes in flight (B) from which an ACK of one segment was not delayed by waiting for a second.

With so many bytes in flight, a second segment was on its way. If the mobile acknowledged only one,
the link had not delivered the second within the ACK delay.
"""
QUANTILES = {
    "first": ("1st quartile", 0.25),
    "median": ("median", 0.5),
    "third": ("3rd quartile", 0.75),
    "high": ("95th percentile", 0.95),
}
NUMBERS = Numbers(
    mart("rtt_by_flight"),
    [
        Ratio("rtt", "mean RTT", "rtt_sum", "rtt_samples", SECONDS, "rtt_samples", "none"),
        *(
            LogQuantile(name, label, level, SECONDS, "rtt_samples", "rtt_samples")
            for name, (label, level) in QUANTILES.items()
        ),
        Ratio("queueing", "mean queueing delay", "queueing_sum", "queueing_samples", SECONDS,
              "queueing_samples", "none"),
    ],
    where=f"not delayed or flight >= {MIN_FLIGHT_B}",
    counts={"rtt_samples": ("RTT samples", "rtt_samples")},
)  # fmt: skip
