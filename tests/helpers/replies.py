"""What a server did, for exchanges about senders; segments and times are those of `segments`.

Gi lies 100 ms from the server and back, 600 ms from the mobile and back. So what a server sends in
answer to an ACK passes Gi 100 ms after it; an ACK passes Gi 600 ms after its data; a round trip of
the server's is 700 ms, and its timeout after the handshake 3 x 700 ms (RFC 6298, 2.2), counted from
when it sent (at Gi: when that passed) or from when it heard an ACK (100 ms after that passed).
"""

from collections.abc import Iterable
from dataclasses import replace

from spark_jobs.tables.registry import ROWS
from spark_jobs.tables.user_partition import Settings, UserPartition
from tests.helpers.packet_script import Packet, packets, tables
from tests.helpers.segments import ACK, DATA, RTT_US, acked, opened, sent

MS = 1000
SECOND = 1_000_000
BEGIN = 900_000
"""The response begins,"""
FIRST_ACK = BEGIN + RTT_US
"""and is acknowledged."""
ANSWER_US = 100_000
"""From an ACK to its answer, at Gi."""
TIMEOUT_US = 3 * (RTT_US + ANSWER_US)
"""After one round trip was measured."""

FIN = frozenset({"FIN", "ACK"})


def tables_with_settings(exchange: Iterable[Packet], **settings: float) -> dict[str, list[dict]]:
    """Rows of each table, with some of a network's Settings."""
    made = UserPartition(*packets(exchange), Settings("net", **settings))
    return {table.name: rows(made).to_pylist() for table, rows in ROWS.items()}


def causes_and_counts(
    exchange: Iterable[Packet], **settings: float
) -> tuple[list[str | None], int, int]:
    """For an exchange that is one connection: the causes of `retransmissions`, in order of time;
    `flows.retransmissions`; `flows.rto_expiries`."""
    rows = tables_with_settings(exchange, **settings)
    (flow,) = rows["flows"]
    causes = [row["cause"] for row in rows["retransmissions"]]
    return causes, flow["retransmissions"], flow["rto_expiries"]


def retransmitted(lines: list[Packet]) -> list[dict]:
    """Rows of `retransmissions`."""
    return tables(lines)["retransmissions"]


def server_packet(at_us: int, seq: int, data: int = 0, flags: frozenset[str] = ACK) -> Packet:
    """A packet from the server that is no whole segment."""
    return Packet(at_us, "down", flags, seq=seq, ack=300, data=data)


def flight(first: int, last: int, at_us: int = BEGIN) -> list[Packet]:
    """dfirst ... dlast, 1 ms apart."""
    return [sent(at_us + (n - first) * MS, n) for n in range(first, last + 1)]


def duplicates(count: int, at_us: int, upto: int = 1, sack: bool = False) -> list[Packet]:
    """The mobile lacks the segment after `upto`; those after that came 1 ms apart."""
    return [
        acked(at_us + n * MS, upto, *([(upto + 2, upto + 2 + n)] if sack else []))
        for n in range(count)
    ]


def transfer(count: int, sack: bool = False) -> list[Packet]:
    """A handshake; d1 ... dcount, one a second, each acknowledged: all round trips are 700 ms."""
    lines = opened(sack)
    for n in range(1, count + 1):
        at = BEGIN + (n - 1) * SECOND
        lines += [sent(at, n), acked(at + RTT_US, n)]
    return lines


def windowed(lines: list[Packet], segments: float) -> list[Packet]:
    """The mobile's window is of so many segments."""
    return [replace(p, win=int(segments * DATA)) if p.way == "up" else p for p in lines]


def after_a_timeout(sack: bool = False) -> tuple[list[Packet], int]:
    """
    Gi     | d1 d2 d3 d4         d1'     d2' d3'     d4'        all was lost
    mobile |                        a1          a3      a4

    With SACK, the tail d4 is retransmitted as a probe first, and lost. And when a4 passes Gi.
    """
    at = BEGIN + TIMEOUT_US
    lines = [*opened(sack), *flight(1, 4)]
    if sack:
        probed = lines[-1].us + 2 * (RTT_US + ANSWER_US)
        lines.append(sent(probed, 4))
        at = probed + TIMEOUT_US
    lines.append(sent(at, 1))
    for upto, retransmissions in ((1, (2, 3)), (3, (4,))):
        lines.append(acked(at + RTT_US, upto))
        at += RTT_US + ANSWER_US
        lines += [sent(at, n) for n in retransmissions]
    return [*lines, acked(at + RTT_US, 4)], at + RTT_US


def stamped(lines: list[Packet], **echoes: int) -> list[Packet]:
    """With timestamps in ms; `echoes` by place: _12=900 is the timestamp that line 12 echoes."""
    made = [replace(p, tsval=p.us // MS, tsecr=1) for p in lines]
    for place, tsecr in echoes.items():
        k = int(place.strip("_"))
        made[k] = replace(made[k], tsecr=tsecr)
    return made
