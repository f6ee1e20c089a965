"""QUIC beside TCP: shares, set-ups, and round trips."""

from spark_jobs.figures.curves import Curves
from spark_jobs.figures.figure import Bars, Figure, Shares
from spark_jobs.figures.format import NOT_MEASURED, SECONDS
from spark_jobs.figures.quic_beside_tcp.numbers import (
    PROTOCOLS,
    QUANTITIES,
    SETUP_CLASSES,
    SETUPS,
    SHARES,
    SPIN_BITS,
    SPIN_RTTS,
    TIME_LABELS,
    TIMES,
)

FIGURES = [
    Figure(
        "quic-shares",
        "QUIC beside TCP: shares",
        "RFC 9000; beside Table I",
        "Connections that the mobile opened and whose beginning Gi saw. 100 % is TCP and QUIC "
        "together, without other traffic (not_tcp_share of the daily checks includes it). Partial "
        "QUIC: the beginning was not seen, so only the port may show that it is QUIC. Partial "
        "connections count in no share. Only days on which the network has QUIC. kB: 1,000 B.",
        "quic",
        SHARES,
        by={"quantity": ("quantity", list(QUANTITIES))},
        by_hours=True,
        drawn=Bars("quantity", "Quantity", "QUIC's share [%]", ["share"]),
        notes=[
            "QUIC encrypts packet numbers and acknowledgments (RFC 9001, 5). Its losses, "
            "retransmissions and windows are therefore not known, and no figure shows them."
        ],
    ),
    Figure(
        "quic-setups",
        "QUIC beside TCP: set-ups",
        "INFOCOM 2004, Section III.C; RFC 9000, 6, 8.1, 17.2; beside Fig. 5",
        "Set-up categories. Optimal: TCP has one SYN and one SYN ACK; QUIC has one Initial before "
        "the server answers, and then the handshake. Retry: the server had the mobile prove its "
        "address. Version negotiation: the server did not know the mobile's version. No response: "
        "SYNs or Initials only. Refused: an RST to the SYN, or ICMP for QUIC. Serious problem: the "
        "server answered, but the mobile did not complete the set-up. "
        f"{NOT_MEASURED}: the protocol does not have the category.",
        "quic",
        SETUPS,
        by={"protocol": ("protocol", PROTOCOLS)},
        by_hours=True,
        counted="set-ups",
        drawn=Shares("Share of set-ups", {name: of.colour for name, of in SETUP_CLASSES.items()}),
    ),
    Figure(
        "quic-times",
        "QUIC beside TCP: times",
        "INFOCOM 2004, Sections III.A and III.B; RFC 9312, 2.4, 3.8; beside Figs. 3 and 4",
        "Cumulative distributions. QUIC's set-up delay is the time from the mobile's first Initial "
        "to its first packet that needs the server's handshake. It includes the TLS handshake, "
        "which TCP's does not. The RTTs are those of the set-up. TCP's count without background "
        "traffic only, QUIC's count with any. The spin bit (RFC 9000, 17.4) shows the RTT from "
        "mobile to server and back during the connection; the table has the distribution of the "
        "connections' medians. Only a spin bit that spins shows the RTT. One without signal "
        "changes as random values do.",
        "quic",
        TIMES,
        by={"time": ("time", list(TIME_LABELS.values())), "protocol": ("protocol", PROTOCOLS)},
        by_hours=True,
        more={"RTT by the spin bit": SPIN_RTTS, "spin bits": SPIN_BITS},
        counted="times",
        drawn=Curves(
            "Time", SECONDS, "connections", "below", "protocol", "time", is_logarithmic=True
        ),
    ),
]
