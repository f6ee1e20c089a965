"""Fig. 4: cumulative distributions of the handshake's RTT, at peak and off-peak."""

from spark_jobs.figures.curves import Curves, distribution
from spark_jobs.figures.dashboard_parts import label_sql
from spark_jobs.figures.fig04_round_trip_time.numbers import SIDES
from spark_jobs.figures.figure import Figure
from spark_jobs.figures.format import MILLISECONDS

sections = Figure(
    "fig04",
    "Fig. 4. CDF of the round-trip time",
    "INFOCOM 2004, Section III.B",
    "The RTT of the handshake at Gi: SYN ACK to ACK on the access side, SYN to SYN ACK on the "
    "Internet side. Only connections without background traffic count, and only an RTT below 3 s. "
    "If the SYN or the SYN ACK was repeated, timestamps must show which one was answered. If the "
    "RTT on the access side is close to the server's initial RTO (1 s in today's stacks, 3 s in "
    "2004), servers retransmit most SYN ACKs: few connections then qualify, and they are the "
    "faster ones. Peak and off-peak are hours of the network's local time.",
    "",
    distribution(
        "measure in ('rtt_access', 'rtt_internet')",
        MILLISECONDS,
        (0.1, 0.5, 0.9),
        dimensions={
            "side": label_sql("measure", {f"rtt_{side}": text for side, text in SIDES.items()})
        },
    ),
    by={"side": ("side", list(SIDES.values()))},
    by_hours=True,
    counted="RTT samples",
    drawn=Curves("RTT", MILLISECONDS, "connections", "below", columns="side"),
    notes=[
        "The paper (Section III.B): the RTT over GPRS at peak is 50 to 100 ms above that at "
        "off-peak; over dial-up it lies between 100 and 300 ms."
    ],
).sections
