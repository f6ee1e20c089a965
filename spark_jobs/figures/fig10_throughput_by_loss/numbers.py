"""The mean throughput and goodput by class of loss."""

from spark_jobs.figures.dashboard_parts import label_sql
from spark_jobs.figures.format import KBITS
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import Numbers, mean

CLASSES = {0: "0 to 1 %", 1: "1 to 2 %", 2: "2 to 3 %", 3: "3 % and more"}
LOSS = label_sql("loss_class", CLASSES)
NUMBERS = Numbers(
    mart("fig10_throughput_by_loss"),
    [
        mean("throughput", "throughput at Gi", "throughput_sum", KBITS),
        mean("received", "throughput at the mobile", "received_sum", KBITS),
        mean("goodput", "goodput", "goodput_sum", KBITS),
    ],
    {"loss": LOSS},
)
