"""The stalls of a class: mean duration, and shares by their end and by other users' stalls."""

from spark_jobs.figures.dashboard_parts import label_sql
from spark_jobs.figures.format import SECONDS
from spark_jobs.figures.marts import mart
from spark_jobs.figures.names import LIGHT_COLOURS, with_spaces
from spark_jobs.figures.numbers import Numbers, Ratio

STALL_WORDS = {
    "packet_delay": "data or ACK late",
    "ack_delay": "only ACKs late or lost",
    "continuous_loss": "all data in flight lost",
    "double_retransmission": "a retransmission lost",
    "small_window": "too few segments in flight for duplicate ACKs",
    "tail_retransmission": "too few segments after the loss",
    "zero_window": "the mobile's window closed",
    "client_idle": "no request from the mobile",
    "data_unavailable": "no data at the server",
}
"""Classes of stalls in words."""
HOST_STALLS = ("zero_window", "client_idle", "data_unavailable")
"""Classes that depend on the hosts, the last of STALL_WORDS; the others depend on the path."""
STALL_LABELS = {name: with_spaces(name) for name in STALL_WORDS}
STALL_COLOURS = dict(
    zip(STALL_LABELS.values(), (*LIGHT_COLOURS[:6], "#888888", "#aaaaaa", "#cccccc"), strict=True)
)
"""Hues: the network's part; greys: the hosts' part."""
NUMBERS = Numbers(
    mart("stalls_by_class"),
    [
        Ratio("mean", "mean duration", "seconds", "stalls", SECONDS, "stalls", "none"),
        Ratio("by_rto_expiry", "ended by an RTO expiry", "rto_stalls", "stalls",
              samples="stalls", kind="none"),
        Ratio("shared", "other users at once", "if(users_at_once > 1, stalls, 0)",
              "if(users_at_once is null, 0, stalls)",
              samples="if(users_at_once is null, 0, stalls)", kind="none"),
    ],
    {"class": label_sql("class", STALL_LABELS)},
    counts={"stalls": ("stalls", "stalls"), "seconds": ("time in stalls [s]", "seconds")},
)  # fmt: skip
