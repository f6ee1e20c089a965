"""Fig. 10: throughput and goodput of large single transfers by loss."""

from spark_jobs.figures.dashboard_parts import label_sql
from spark_jobs.figures.figure import Bars, Figure
from spark_jobs.figures.format import KBITS
from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import Numbers, mean

CLASSES = {0: "0 to 1 %", 1: "1 to 2 %", 2: "2 to 3 %", 3: "3 % and more"}
NUMBERS = Numbers(
    mart("fig10_throughput_by_loss"),
    [
        mean("throughput", "throughput at Gi", "throughput_sum", KBITS),
        mean("received", "throughput at the mobile", "received_sum", KBITS),
        mean("goodput", "goodput", "goodput_sum", KBITS),
    ],
    {"loss": label_sql("loss_class", CLASSES)},
)
FIGURE = Figure(
    "fig10",
    "Fig. 10. Average throughput and goodput by packet loss",
    "INFOCOM 2004, Section VI.A",
    "Single request–response connections (no other traffic of the user) above 100 KiB of distinct "  # noqa: RUF001
    "payload, by the share of the sent data packets that were lost on either side of Gi. The paper "
    "shows the first three classes. Throughput at Gi counts lost bytes, as in the paper, and may "
    "rise with loss. Throughput at the mobile counts only bytes that arrived.",
    "transfers",
    NUMBERS,
    by={"loss": ("loss", list(CLASSES.values()))},
    drawn=Bars(
        "loss",
        "Lost share of the sent data packets",
        "Mean over connections [kbit/s]",
        ["throughput", "received", "goodput"],
    ),
)
