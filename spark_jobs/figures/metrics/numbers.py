"""The mean of one metric, and of each metric by day."""

from collections.abc import Mapping

from spark_jobs.figures.format import Unit
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import Numbers, mean

BY_DAY = Numbers(
    mart("metrics"),
    [mean("value", "value", "numerator", Unit(""), "denominator", "measured")],
    {"on_day": "date"},
    counts={},
)


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
