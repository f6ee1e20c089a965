"""The page on throughput and goodput (Figs. 9 to 13)."""

from spark_jobs.dashboards.charts import bars, cumulative, histogram
from spark_jobs.dashboards.common import (
    FILTERS,
    FLOWS,
    KEYS,
    USER_GROUPS,
    mean_rate,
    share_of_series,
    sum_by,
)
from spark_jobs.dashboards.parts import (
    Dashboard,
    Dataset,
    histogram_outline,
    label_sql,
    rate_histogram,
)
from spark_jobs.report import fig10, throughput
from spark_jobs.report.rates import SHOWN_BINS


def _rates(name: str, mart: str, keys: str, title: str) -> Dataset:
    """Return the histogram and the mean of a rate, of which a mart has the sums."""
    return Dataset(
        name,
        rate_histogram(mart, f"{KEYS}, {keys}", ["flows", f"{name}_sum"], SHOWN_BINS),
        [FLOWS, sum_by("series", "flows", "connections"),
         share_of_series("flows", "share of connections"), mean_rate(name, title)],
    )  # fmt: skip


THROUGHPUT = _rates("throughput", "fig09_throughput", "counted, user_groups", "mean throughput")
BY_LOSS = Dataset(
    "throughput_by_loss",
    f"""select {KEYS}, {USER_GROUPS}, flows, throughput_sum, received_sum, goodput_sum, loss_class,
    {label_sql("loss_class", fig10.CLASSES)} as loss
from fig10_throughput_by_loss""",
    [
        FLOWS,
        mean_rate("throughput", "mean throughput (passed Gi)"),
        mean_rate("received", "mean throughput (arrived)"),
        mean_rate("goodput", "mean goodput"),
    ],
)
TCP_SHARE = Dataset(
    "tcp_share",
    histogram_outline(
        f"{KEYS}, {USER_GROUPS}",
        ["flows"],
        "fig11_tcp_share",
        f"least(bin, {1 - 1 / throughput.TWENTIETHS})",
        str(1 / throughput.TWENTIETHS),
        "tcp_share",
    ),
    [FLOWS, sum_by("series", "flows", "connections")],
)
USER_THROUGHPUT = _rates(
    "user_throughput",
    "fig13_user_throughput",
    f"counted, user_groups, {label_sql('background_thirds', throughput.LEVELS)} as level",
    "mean user throughput",
)
PASSED_GI, ARRIVED = "counted = 'passed'", "counted = 'arrived'"
"""Rates count the bytes that passed Gi, as in the paper, or the bytes that reached the mobile."""
TRANSFERS = Dashboard(
    "Transfers",
    "giscope-transfers",
    filters=FILTERS,
    rows=[
        [
            histogram("Fig. 9. Throughput of single, large TCP connections", THROUGHPUT,
                      "rate_kbps", "flows_by_series", "Throughput [kbit/s]", "Share of connections",
                      where=PASSED_GI),
            cumulative("Fig. 9. Throughput, peak and off-peak", THROUGHPUT,
                       "rate_kbps_below", "Throughput [kbit/s]", "Cumulative share of connections",
                       where=PASSED_GI),
        ],
        [
            histogram("Fig. 9. Throughput of bytes that arrived", THROUGHPUT, "rate_kbps",
                      "flows_by_series", "Throughput [kbit/s]", "Share of connections",
                      where=ARRIVED),
            cumulative("Fig. 9. Throughput of bytes that arrived, peak and off-peak", THROUGHPUT,
                       "rate_kbps_below", "Throughput [kbit/s]", "Cumulative share of connections",
                       where=ARRIVED),
        ],
        [
            bars("Fig. 10. Average throughput by packet loss", BY_LOSS, "loss", "throughput",
                 "series", horizontal=True),
            bars("Fig. 10. Average throughput of bytes that arrived, by packet loss", BY_LOSS,
                 "loss", "received", "series", horizontal=True),
        ],
        [
            bars("Fig. 10. Average goodput by packet loss", BY_LOSS, "loss", "goodput",
                 "series", horizontal=True),
            histogram("Fig. 11. Background traffic during TCP connections", TCP_SHARE, "tcp_share",
                      "flows_by_series", "Btcp / (Btcp + Bother)", "Share of connections"),
        ],
        [
            histogram("Fig. 13. User throughput", USER_THROUGHPUT, "rate_kbps",
                      "flows_by_series", "User throughput [kbit/s]", "Share of connections",
                      where=PASSED_GI),
            bars("Fig. 13. Mean user throughput by background traffic", USER_THROUGHPUT, "level",
                 "user_throughput", "series", horizontal=True, descending=True,
                 where=f"flows > 0 and {PASSED_GI}"),
        ],
        [
            cumulative("Fig. 13. User throughput, peak and off-peak", USER_THROUGHPUT,
                       "rate_kbps_below", "User throughput [kbit/s]",
                       "Cumulative share of connections", where=PASSED_GI),
            bars("Fig. 13. Mean user throughput of bytes that arrived, by background traffic",
                 USER_THROUGHPUT, "level", "user_throughput", "series", horizontal=True,
                 descending=True,
                 where=f"flows > 0 and {ARRIVED}"),
        ],
    ],
)  # fmt: skip
