"""Servers' retransmissions by cause."""

from spark_jobs.figures.charts import bars
from spark_jobs.figures.dashboard_parts import Dataset, Metric, if_enough_data
from spark_jobs.figures.dashboard_sql import KEYS, USER_GROUPS
from spark_jobs.figures.names import MUTED_COLOURS, paler
from spark_jobs.figures.retransmissions_by_cause.numbers import BY_CAUSE, CAUSE_LABELS

TAB = "why"
COLOURS = {
    label + spurious: paler(colour, 0 if spurious else 0.7)
    for label, colour in zip(CAUSE_LABELS.values(), MUTED_COLOURS, strict=True)
    for spurious in ("", ", spurious")
}
RETRANSMISSIONS = Dataset(
    "causes_of_retransmissions",
    f"""
select {KEYS}, {USER_GROUPS}, data_packets,
    unnest({[ratio.label for ratio in BY_CAUSE.shares]}) as cause,
    unnest([{", ".join(ratio.numerator for ratio in BY_CAUSE.shares)}]) as retransmissions
from retransmissions_by_cause
""",
    [
        Metric(
            "share",
            if_enough_data("sum(retransmissions) / nullif(sum(data_packets), 0)", "data_packets"),
            "share of data packets",
            ".1%",
        )
    ],
    "data packets",
)
ROWS = [
    [
        bars("Retransmissions by cause; dark: spurious", RETRANSMISSIONS, "series", "share",
             "cause", stacked=True, horizontal=True, y_title="Share of data packets"),
    ],
]  # fmt: skip
