"""QUIC's shares of connections and volume; set-ups, RTTs and spin bits of either protocol."""

from collections.abc import Sequence
from typing import NamedTuple

from schemas import SPINS
from spark_jobs.figures.dashboard_parts import literal
from spark_jobs.figures.format import MILLISECONDS
from spark_jobs.figures.marts import mart
from spark_jobs.figures.names import with_spaces
from spark_jobs.figures.numbers import Numbers, Ratio, mean

PROTOCOLS = ("TCP", "QUIC")
PARTIAL = "partial"
"""The `protocol` of QUIC connections whose beginning was not seen: they count in no share."""
QUANTITIES = {
    "connections": ("connections", "flows"),
    "packets": ("packets", "packets_up + packets_down"),
    "down": ("IP bytes to the mobile", "ip_bytes_down"),
    "up": ("IP bytes from the mobile", "ip_bytes_up"),
}
"""Label and SQL of what is counted of either protocol."""


def _of_protocol(protocol: str, sql: str) -> str:
    return f"if(protocol = '{protocol}', {sql}, 0)"


def _is_in(protocols: Sequence[str]) -> str:
    return f"protocol in ({', '.join(map(literal, protocols))})"


def _of_both(sql: str) -> str:
    return f"if({_is_in(PROTOCOLS)}, {sql}, 0)"


SHARES = Numbers(
    mart("quic_beside_tcp"),
    [
        Ratio(f"share_of_{name}", f"QUIC's share of {label}", _of_protocol("QUIC", sql),
              _of_both(sql), samples=_of_both("flows"))
        for name, (label, sql) in QUANTITIES.items()
    ],
    where="measure = 'connection'",
    counts={
        f"{name}_of_{protocol}": (f"{protocol}: {label}", _of_protocol(protocol, sql))
        for name, (label, sql) in QUANTITIES.items()
        for protocol in (*PROTOCOLS, PARTIAL)
    },
)  # fmt: skip


SETUP = "measure = 'connection' and category is not null"
"""Condition on the mart's rows: connections whose set-up has a category."""


class SetupClass(NamedTuple):
    """A set-up category: its label, its colour, and the protocols that have it."""

    label: str
    colour: str
    protocols: tuple[str, ...] = PROTOCOLS


SETUP_CLASSES = {
    "optimal": SetupClass("optimal", "#7fb77e"),
    "slight_problem": SetupClass("SYN (ACK) retransmitted", "#f0a35e", ("TCP",)),
    "initial_repeated": SetupClass("Initial repeated", "#e3b52e", ("QUIC",)),
    "retry": SetupClass("Retry", "#f2cf63", ("QUIC",)),
    "version_negotiation": SetupClass("version negotiation", "#c7b299", ("QUIC",)),
    "no_response": SetupClass("no response", "#8fb4d9"),
    "refused": SetupClass("refused", "#b493c9"),
    "serious_problem": SetupClass("serious problem", "#c4573e"),
}
"""The categories of either protocol, from the best to the worst."""
TIMES = {
    "setup_delay": "set-up delay",
    "rtt_access": "RTT on the access side",
    "rtt_internet": "RTT on the Internet side",
}
"""Labels of the times that either protocol has."""
SPIN_RTT = "RTT by the spin bit"
SPIN_LABELS = {name: with_spaces(name) for name in SPINS}
"""Labels of what spin bits do."""


def _share_of_setups(name: str, of: SetupClass) -> Ratio:
    setups = f"if({SETUP} and {_is_in(of.protocols)}, flows, 0)"
    return Ratio(name, of.label, f"if(category = '{name}', {setups}, 0)", setups, samples=setups)


def _mean(measure: str, label: str) -> Ratio:
    count = f"if(measure = '{measure}', flows, 0)"
    return mean(
        f"mean_{measure}", f"mean {label}", f"if(measure = '{measure}', value_sum, 0)",
        MILLISECONDS, count, count,
    )  # fmt: skip


SETUP_SHARES = [_share_of_setups(name, of) for name, of in SETUP_CLASSES.items()]
MEANS = [_mean(name, label) for name, label in (*TIMES.items(), ("spin_rtt", SPIN_RTT))]
SPIN_BITS = [
    Ratio(
        name, f"spin bit: {label}", f"if(measure = 'spin' and category = '{name}', flows, 0)",
        "if(measure = 'spin', flows, 0)", samples="if(measure = 'spin', flows, 0)",
    )
    for name, label in SPIN_LABELS.items()
]  # fmt: skip
NUMBERS = Numbers(
    mart("quic_beside_tcp"),
    [*SETUP_SHARES, *MEANS, *SPIN_BITS],
    where=_is_in(PROTOCOLS),
    counts={
        "flows": ("connections", "if(measure = 'connection', flows, 0)"),
        "setups": ("set-ups", f"if({SETUP}, flows, 0)"),
        "spin_bits": ("spin bits", "if(measure = 'spin', flows, 0)"),
    },
)
"""Numbers by protocol. What a protocol lacks has no samples."""
