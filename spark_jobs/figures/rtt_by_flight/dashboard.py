"""RTT and queueing delay by bytes in flight."""

from spark_jobs.figures.charts import bars
from spark_jobs.figures.dashboard_parts import Chart
from spark_jobs.figures.dashboard_sql import rows_dataset
from spark_jobs.figures.rtt_by_flight.numbers import NUMBERS

TAB = "why"
RTT_BY_FLIGHT = rows_dataset(NUMBERS, "rtt_by_flight_rows", "RTT samples")


def _flight_chart(quantity: str, metric: str) -> Chart:
    return bars(
        f"{quantity} on the access side by bytes in flight", RTT_BY_FLIGHT, "flight", metric,
        x_title="Bytes in flight, lower edge [B]", long_labels=True,
    )  # fmt: skip


ROWS = [
    [
        _flight_chart("Mean RTT", "rtt"),
        _flight_chart("Mean queueing (RTT above the user's smallest of the hour)", "queueing"),
    ],
]
