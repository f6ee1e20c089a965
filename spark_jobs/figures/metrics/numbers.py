"""The mean of one metric, the mean of each metric by day, and medians and 95th percentiles."""

from collections.abc import Mapping

from spark_jobs.figures.format import NUMBER, Unit
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import Numbers, Quantile, mean

BY_DAY = Numbers(
    mart("metrics"),
    [mean("value", "value", "numerator", Unit(""), "denominator", "measured")],
    {"on_day": "date"},
    counts={},
)
QUANTILES = Numbers(
    mart("distributions"),
    [
        Quantile("median", "median", 0.5, NUMBER),
        Quantile("percentile_95", "95th percentile", 0.95, NUMBER),
    ],
    {"metric": "replace(measure, '_received', '')"},
    where="measure in ('setup_delay', 'rtt_access', 'rtt_internet', 'channel_rate', "
    "'throughput_received')",
    counts={},
)
"""Quantiles of the metrics that have a value for each connection or period."""


def numbers_of(
    metric: str, label: str, unit: Unit, counts: Mapping[str, tuple[str, str]] | None = None
) -> Numbers:
    """Return the mean of one metric, which has the metric's name."""
    return Numbers(
        mart("metrics"),
        [mean(metric, label, "numerator", unit, "denominator", "measured")],
        where=f"metric = '{metric}'",
        counts=counts or {},
    )
