"""Shares of the transfers' time by limit, and throughput by window, segment size and parallels."""

from schemas.flows import LIMITS
from spark_jobs.figures.format import KBITS, PER_HOUR
from spark_jobs.figures.marts import mart
from spark_jobs.figures.names import LIGHT_COLOURS, MUTED_COLOURS, with_spaces
from spark_jobs.figures.numbers import Numbers, Ratio

LIMIT_LABELS = {limit: with_spaces(limit) for limit in LIMITS}
LIMIT_COLOURS = dict(zip(LIMITS, LIGHT_COLOURS, strict=False))
LIMIT_WORDS = {
    "channel": "the access link was busy",
    "receiver": "the mobile's window was full",
    "recovery": "the server recovered from losses, or had a smaller congestion window after them",
    "slow_start": "the congestion window was still growing",
    "server": "the server had no data to send",
    "mobile": "the mobile read no data or sent no request",
}
"""Limits of a transfer in words."""
TIME = " + ".join(f"limited_{limit}" for limit in LIMITS)
"""SQL of the time of a row's transfers (s)."""
TIMES = Numbers(
    mart("limits_by_window"),
    [
        *(
            Ratio(limit, label, f"limited_{limit}", TIME, kind="none")
            for limit, label in LIMIT_LABELS.items()
        ),
        Ratio("spikes", "delay spikes", "delay_spikes", TIME, PER_HOUR, kind="none"),
    ],
    counts={"flows": ("connections", "flows"), "time": ("time of transfers [s]", TIME)},
)
MIN_MEDIUM_MSS, MIN_LARGE_MSS = 700, 1200
"""Classes of the MSS (B): small below the first, large from the second on, medium between them."""
MSS_CLASS = (
    f"case when mss < {MIN_MEDIUM_MSS} then 'small' when mss < {MIN_LARGE_MSS} then 'medium' "
    "else 'large' end"
)
MSS_COLOURS = dict(zip(("small", "medium", "large"), MUTED_COLOURS, strict=False))
PARALLEL = ("one connection", "parallel connections")
"""A user's connections at a time, in words."""
WINDOWS = Numbers(
    mart("limits_by_window"),
    [
        Ratio("throughput", "mean user throughput", "user_throughput_sum",
              "user_throughput_flows", KBITS, "user_throughput_flows", "none"),
        Ratio("receiver", "time limited by the window", "limited_receiver", TIME,
              samples="user_throughput_flows", kind="none"),
    ],
    {
        "mss_class": MSS_CLASS,
        "connections": f"if(parallel = 1, '{PARALLEL[0]}', '{PARALLEL[1]}')",
    },
    where="mss is not null and window_segments is not null and parallel is not null",
    counts={"flows": ("connections above 100 KiB", "user_throughput_flows")},
)  # fmt: skip
