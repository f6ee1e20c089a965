"""The servers' RTO by TCP options."""

from dataclasses import replace

from spark_jobs.figures.charts import cumulative
from spark_jobs.figures.dashboard_parts import Chart, Dataset, histogram_outline
from spark_jobs.figures.dashboard_sql import NETWORK, USERS, share_of_series
from spark_jobs.figures.names import HOURS_SQL
from spark_jobs.figures.option_pairs import PAIR, PAIR_COLOURS
from spark_jobs.figures.rto_by_options.figure import NUMBERS

TAB = "why"
COLOURS = PAIR_COLOURS
MAX_DRAWN_RTO_S = 60
"""End of the last bin that is drawn, about (s); that bin also holds all longer RTOs."""
RTO_DISTRIBUTION = Dataset(
    "retransmission_timeouts",
    histogram_outline(
        f"{NETWORK}, hour, hours, options, {USERS}",
        ["seconds", "changes"],
        f"""(select {NETWORK}, hour, {HOURS_SQL} as hours, {PAIR} as options,
        {USERS}, seconds, changes,
        exp(least(bin, floor(10 * ln({MAX_DRAWN_RTO_S})) - 1) / 10) as low
    from rto_by_options where {NUMBERS.where} and measure = 'rto' and not backed_off)""",
        "low",
        "(exp(0.1) - 1) * low",
        "rto",
    ),
    [share_of_series("seconds", "share of connections' time", "changes", ["options"])],
    "RTO values of connections with known TCP options",
)


def _rto_chart(hours: str) -> Chart:
    chart = cumulative(
        f"RTO by TCP options, {hours}, of one network", RTO_DISTRIBUTION,
        "rto_below", "RTO [s]", "Cumulative share of time",
        where=f"hours = '{hours}'", x_max=MAX_DRAWN_RTO_S,
        by=["options"],
    )  # fmt: skip
    return replace(chart, one_network=True)


ROWS = [[_rto_chart("peak"), _rto_chart("off-peak")]]
