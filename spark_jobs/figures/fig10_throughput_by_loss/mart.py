"""The columns of the mart fig10_throughput_by_loss."""

from schemas import Column, Table
from spark_jobs.figures.mart_columns import FLOW_COUNT, PLACE_AND_TIME, USER_GROUP, sum_of

MART = Table(
    "fig10_throughput_by_loss",
    "the large single transfers of one class of loss (Fig. 10)",
    (
        *PLACE_AND_TIME,
        Column(
            "loss_class",
            "int32",
            "lower edge of the class of the ratio of lost packets to data packets sent: 0, 1, "
            "2 or 3 (3 % and more)",
            "%",
            "INFOCOM VI.A",
            required=True,
        ),
        USER_GROUP,
        FLOW_COUNT,
        sum_of("throughput", "single-flow throughputs: bytes that passed Gi", "bit/s"),
        sum_of(
            "received",
            "throughputs of the bytes that arrived (flows.throughput_received)",
            "bit/s",
        ),
        sum_of("goodput", "goodputs", "bit/s"),
    ),
    group_columns=("hour", "loss_class"),
)
