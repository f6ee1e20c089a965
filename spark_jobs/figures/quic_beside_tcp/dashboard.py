"""QUIC beside TCP: shares, set-ups, delays and RTTs."""

from dataclasses import replace

from spark_jobs.figures.charts import bars, cumulative, share_bars, table
from spark_jobs.figures.dashboard_parts import Dataset, Metric, histogram_outline, label_sql
from spark_jobs.figures.dashboard_sql import FLOWS, KEYS, USER_GROUPS, share_of_series
from spark_jobs.figures.numbers import Numbers
from spark_jobs.figures.quic_beside_tcp.numbers import (
    MEANS,
    NUMBERS,
    SETUP,
    SETUP_CLASSES,
    SETUP_SHARES,
    SHARES,
    SPIN_BITS,
    TIMES,
)
from spark_jobs.figures.samples import BINS

PAGE = "giscope-setup"
COLOURS = {of.label: of.colour for of in SETUP_CLASSES.values()}
MEASURED = "QUIC connections"


def _texts(numbers: Numbers, name: str, *by: str) -> Dataset:
    return replace(numbers.dataset(name, *by), measured=MEASURED)


SHARES_TABLE = _texts(SHARES, "quic_shares")
NUMBERS_TABLE = _texts(NUMBERS, "quic_numbers", "protocol")
VOLUMES = Dataset(
    "quic_volumes",
    f"""
select {KEYS}, {USER_GROUPS}, protocol, flows, packets_up, packets_down, ip_bytes_up, ip_bytes_down
from quic_beside_tcp where measure = 'connection'
""",
    [SHARES["share_of_down"].metric],
    MEASURED,
)
SETUP_LABEL = label_sql("category", {name: of.label for name, of in SETUP_CLASSES.items()})
SETUP_CATEGORIES = Dataset(
    "quic_setups",
    f"""
select {KEYS}, {USER_GROUPS}, {SETUP_LABEL} as setup, flows
from quic_beside_tcp where protocol = 'QUIC' and {SETUP}
""",
    [Metric("setups", "sum(flows)", "set-ups", ",d")],
    MEASURED,
)
DELAYS = Dataset(
    "quic_times",
    histogram_outline(
        f"{KEYS}, {USER_GROUPS}, protocol, measure",
        ["flows", "value_sum"],
        "quic_beside_tcp where bin is not null",
        f"exp(bin / {BINS})",
        f"exp((bin + 1) / {BINS}) - exp(bin / {BINS})",
        "time",
    ),
    [
        FLOWS,
        share_of_series("flows", "share of connections"),
        NUMBERS["mean_setup_delay"].metric,
    ],
    MEASURED,
)
ROWS = [
    [
        table("QUIC beside TCP: shares, with 95 % intervals", SHARES_TABLE, ["network", "hours"],
              ["connections_of_TCP", "connections_of_QUIC",
               *(ratio.name for ratio in SHARES.ratios)],
              order="network || hours"),
    ],
    [
        bars("QUIC's share of IP bytes to the mobile by local hour", VOLUMES, "hour",
             "share_of_down", "network", x_title="Local hour [h]"),
        bars("QUIC beside TCP: mean set-up delay", DELAYS, "protocol", "mean_setup_delay",
             "series", where="measure = 'setup_delay' and flows > 0"),
    ],
    [
        cumulative(f"QUIC: {label}", DELAYS, "time_below", f"{label.capitalize()} [s]",
                   "Cumulative share of connections",
                   where=f"protocol = 'QUIC' and measure = '{measure}'")
        for measure, label in TIMES.items()
    ],
    [
        share_bars("QUIC: set-up categories", SETUP_CATEGORIES, "setup", "setups",
                   "Share of set-ups"),
    ],
    [
        table("QUIC beside TCP: set-ups, with 95 % intervals", NUMBERS_TABLE,
              ["network", "hours", "protocol"],
              ["setups", *(ratio.name for ratio in SETUP_SHARES)],
              order="network || hours || protocol"),
    ],
    [
        table("QUIC beside TCP: delay, RTT and spin bit, with 95 % intervals", NUMBERS_TABLE,
              ["network", "hours", "protocol"],
              ["flows", *(ratio.name for ratio in (*MEANS, *SPIN_BITS))],
              order="network || hours || protocol"),
    ],
]  # fmt: skip
