"""QUIC's shares of connections and volume; set-ups, RTTs and spin bits of either protocol."""

from typing import NamedTuple

from schemas import SPINS
from spark_jobs.figures.curves import distribution
from spark_jobs.figures.dashboard_parts import label_sql, literal
from spark_jobs.figures.format import MILLISECONDS
from spark_jobs.figures.marts import mart
from spark_jobs.figures.names import with_spaces
from spark_jobs.figures.numbers import Numbers, Ratio

PROTOCOLS = ("TCP", "QUIC")
PARTIAL = "partial"
"""The `protocol` of QUIC connections whose beginning was not seen: they count in no share."""
MART = mart("quic_beside_tcp")
DOWN = "IP bytes to the mobile [kB]"
QUANTITIES = {
    "connections": "flows",
    "packets": "packets_up + packets_down",
    DOWN: "ip_bytes_down / 1000",
    "IP bytes from the mobile [kB]": "ip_bytes_up / 1000",
}
"""SQL of what is counted of either protocol, by label."""
QUANTITY = f"""(
    select *, unnest([{", ".join(map(literal, QUANTITIES))}]) as quantity,
        unnest([{", ".join(f"({sql})::double" for sql in QUANTITIES.values())}]) as amount
    from {MART.name} where measure = 'connection'
)"""
"""SQL of a row for each row of the mart and each quantity, of which `amount` is the number."""
OF_BOTH = f"protocol in {PROTOCOLS}"


def _amount_of(protocol: str) -> str:
    return f"if(protocol = '{protocol}', amount, 0)"


SHARES = Numbers(
    MART,
    [
        Ratio("share", "QUIC's share", _amount_of("QUIC"), f"if({OF_BOTH}, amount, 0)",
              samples=f"if({OF_BOTH}, flows, 0)")
    ],
    counts={
        "connections": ("", f"if(quantity = 'connections' and {OF_BOTH}, flows, 0)"),
        "TCP": ("TCP", _amount_of("TCP")),
        "QUIC": ("QUIC", _amount_of("QUIC")),
        PARTIAL: ("partial QUIC", _amount_of(PARTIAL)),
    },
    source=QUANTITY,
)  # fmt: skip


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
TIME_LABELS = {
    "setup_delay": "set-up delay",
    "rtt_access": "RTT on the access side",
    "rtt_internet": "RTT on the Internet side",
}
"""Labels of the times of either protocol."""


def _times(where: str) -> Numbers:
    return distribution(
        where,
        MILLISECONDS,
        (0.1, 0.5, 0.9),
        dimensions={"time": label_sql("measure", TIME_LABELS)},
        table=MART,
        source=f"""(
            select *, flows as samples, flows::double as weight, value_sum as weighted_sum
            from {MART.name}
        )""",
    )


TIMES = _times(f"measure in {tuple(TIME_LABELS)}")
SPIN_RTTS = _times("measure = 'spin_rtt'")
SPIN_LABELS = {name: with_spaces(name) for name in SPINS}
"""Labels of what spin bits do."""
SETUPS = Numbers(
    MART,
    [
        Ratio(name, of.label, f"if(category = '{name}', {setups}, 0)", setups, samples=setups)
        for name, of in SETUP_CLASSES.items()
        for setups in [f"if(list_contains({list(of.protocols)}, protocol), flows, 0)"]
    ],
    where=f"measure = 'connection' and category is not null and {OF_BOTH}",
    counts={"setups": ("set-ups", "flows")},
)  # fmt: skip
SPIN_BITS = Numbers(
    MART,
    [
        Ratio(name, label, f"if(category = '{name}', flows, 0)")
        for name, label in SPIN_LABELS.items()
    ],
    where="measure = 'spin'",
    counts={"spin_bits": ("connections", "flows")},
)
