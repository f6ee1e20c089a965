"""Table II, and the losses by local hour."""

from spark_jobs.figures.charts import bars, table
from spark_jobs.figures.dashboard_parts import Dataset
from spark_jobs.figures.dashboard_sql import KEYS, USER_GROUPS
from spark_jobs.figures.table2_loss.numbers import NUMBERS

PAGE = "giscope-channel"
LOSSES = NUMBERS.dataset("losses_by_side")
LOSS = Dataset(
    "loss",
    f"select {KEYS}, {USER_GROUPS}, flows, data_packets, lost_access from table2_loss",
    [NUMBERS["access_loss"].metric],
)
ROWS = [
    [
        table("Table II. Packet loss, with 95 % intervals", LOSSES, ["network", "hours"],
              ["internet_loss", "access_loss", "access_loss_min", "access_loss_max", "packets"],
              order="network || hours"),
    ],
    [
        bars("Table II. Loss on the access side by local hour", LOSS, "hour", "access_loss",
             "network", x_title="Local hour [h]"),
    ],
]  # fmt: skip
