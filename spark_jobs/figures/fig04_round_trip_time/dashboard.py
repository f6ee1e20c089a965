"""Fig. 4."""

from spark_jobs.figures.charts import cumulative
from spark_jobs.figures.dashboard_parts import Chart, Dataset, histogram_outline
from spark_jobs.figures.dashboard_sql import FLOWS, KEYS, USERS, share_of_series
from spark_jobs.figures.fig04_round_trip_time.numbers import BIN_S, SIDES

TAB = "setup"
RTT_SAMPLES = Dataset(
    "rtt",
    histogram_outline(
        f"{KEYS}, side, {USERS}",
        ["flows"],
        "fig04_round_trip_time",
        "1000 * bin",
        str(1000 * BIN_S),
        "rtt_ms",
    ),
    [FLOWS, share_of_series("flows", "share of connections")],
    "connections with an RTT of the handshake",
)


def _distribution(side: str) -> Chart:
    return cumulative(
        f"Fig. 4. CDF of the RTT. {SIDES[side]}", RTT_SAMPLES, "rtt_ms_below", "RTT [ms]",
        "Cumulative share of connections", where=f"side = '{side}'",
    )  # fmt: skip


ROWS = [[_distribution(side) for side in SIDES]]
