"""RTT by bytes in flight."""

from spark_jobs.figures.charts import bars
from spark_jobs.figures.dashboard_parts import Chart, Dataset, Metric
from spark_jobs.figures.dashboard_sql import KEYS, USERS
from spark_jobs.figures.names import FEW_SAMPLES
from spark_jobs.figures.rtt_by_flight.numbers import COUNTED_SAMPLES, NUMBERS

PAGE = "giscope-why"
RTT_BY_FLIGHT = Dataset(
    "rtt_by_flight",
    f"""
select {KEYS}, {USERS}, flight, rtt_samples, rtt_sum, queueing_samples, queueing_sum
from rtt_by_flight where {COUNTED_SAMPLES}
""",
    [
        Metric("rtt_samples", "sum(rtt_samples)", "RTT samples", ",d"),
        *(ratio.metric for ratio in NUMBERS.ratios),
    ],
    "RTT samples",
)


def _flight_chart(quantity: str, metric: str) -> Chart:
    return bars(
        f"{quantity} on the access side by bytes in flight", RTT_BY_FLIGHT, "flight", metric,
        "series", x_title="Bytes in flight, lower edge [B]",
        having=f"sum(rtt_samples) >= {FEW_SAMPLES}",
    )  # fmt: skip


ROWS = [
    [
        _flight_chart("Mean RTT", "rtt"),
        _flight_chart("Mean queueing (RTT above the user's smallest of the hour)", "queueing"),
    ],
]
