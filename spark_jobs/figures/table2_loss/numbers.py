"""The shares of the downlink data packets that are lost on either side."""

from spark_jobs.figures.marts import mart
from spark_jobs.figures.numbers import Numbers, Ratio

NUMBERS = Numbers(
    mart("table2_loss"),
    [
        Ratio("internet_loss", "loss on the Internet side", "lost_internet",
              "data_packets + lost_internet"),
        Ratio("access_loss", "loss on the access side", "lost_access", "data_packets"),
        Ratio("access_loss_min", "of these, if all undecided packets arrived", "lost_access_min",
              "data_packets", kind="none"),
        Ratio("access_loss_max", "of these, if all undecided packets were lost", "lost_access_max",
              "data_packets", kind="none"),
    ],
    counts={"packets": ("data packets seen at Gi", "data_packets")},
)  # fmt: skip
