"""Fig. 10."""

from spark_jobs.figures.charts import bars
from spark_jobs.figures.dashboard_parts import Dataset
from spark_jobs.figures.dashboard_sql import FLOWS, KEYS, USER_GROUPS
from spark_jobs.figures.fig10_throughput_by_loss.numbers import LOSS, NUMBERS

PAGE = "giscope-transfers"
BY_LOSS = Dataset(
    "throughput_by_loss",
    f"""select {KEYS}, {USER_GROUPS}, flows, throughput_sum, received_sum, goodput_sum, loss_class,
    {LOSS} as loss
from fig10_throughput_by_loss""",
    [FLOWS, *(ratio.metric for ratio in NUMBERS.ratios)],
    "single transfers above 100 KiB",
)
ROWS = [
    [
        bars("Fig. 10. Average throughput by packet loss", BY_LOSS, "loss", "throughput",
             "series", horizontal=True),
        bars("Fig. 10. Average throughput of bytes that arrived, by packet loss", BY_LOSS,
             "loss", "received", "series", horizontal=True),
    ],
    [
        bars("Fig. 10. Average goodput by packet loss", BY_LOSS, "loss", "goodput",
             "series", horizontal=True),
    ],
]  # fmt: skip
