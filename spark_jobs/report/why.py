"""Explanation of a connection's throughput in five lines, from the tables."""

from collections import Counter
from typing import Any

from spark_jobs.figures.examples.sentences import (
    counted,
    join,
    limits_sentence,
    stalls_sentence,
)
from spark_jobs.figures.format import NO_BREAK_SPACE, unit_of_time
from spark_jobs.report.connection import Connection

CAUSES = {
    "synack": "of the SYN ACK",
    "rto": "at an RTO expiry",
    "tlp": "for loss probing",
    "fast": "after duplicate ACKs or SACK blocks",
    "slow_start": "in slow start after an RTO expiry",
    "pmtu": "because ICMP said that packets were too big",
    "probe": "for window probing",
    "keepalive": "to keep the connection alive",
}
"""Causes of retransmissions in words that follow a number."""


def explanation(connection: Connection) -> list[str]:
    """Return five lines on throughput, limits, losses, retransmissions and stalls."""
    flow = connection.flow
    return [
        _throughput(flow),
        limits_sentence(flow),
        _losses(flow),
        _retransmissions(flow, connection.retransmissions.to_pylist()),
        stalls_sentence(connection.stalls.to_pylist()),
    ]


def _throughput(flow: dict[str, Any]) -> str:
    seconds = (flow["end_ts"] - flow["start_ts"]).total_seconds()
    rate = flow["goodput"]
    goodput = f"at {rate / 1000:,.1f} kbit/s" if rate else "too few for a rate"
    return (
        f"{flow['server']} port {flow['server_port']} sent "
        f"{counted(flow['payload_bytes_down'], 'byte')} to {flow['user']}, {goodput}, in a "
        f"connection of {seconds:.1f} s that began at {flow['start_ts']:%Y-%m-%d %H:%M:%S} UTC."
    )


def _losses(flow: dict[str, Any]) -> str:
    if flow["lost_access"] is None:
        return "The losses are unknown, as Gi did not see the mobile's ACKs."
    median, minimum = flow["rtt_access_median"], flow["rtt_access_min"]
    rtt = ""
    if median is not None and minimum is not None:
        unit = unit_of_time(median)
        times = f"median {unit.text(median)}, minimum {unit.text(minimum)}"
        rtt = f". The RTT on the access side: {times.replace(NO_BREAK_SPACE, ' ')}"
    return (
        f"Of the {counted(flow['data_packets_down'], 'data packet')} that Gi saw, "
        f"{_were(flow['lost_access'])} lost on the access side. The Internet side lost "
        f"{_counted_if_known(flow['lost_internet'], 'packet')}{rtt}."
    )


def _retransmissions(flow: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    if flow["retransmissions"] is None:
        return "The retransmissions are unknown."
    if not flow["retransmissions"]:
        return "The server retransmitted nothing."
    retransmissions = [row for row in rows if not row["new_data"]]
    causes = Counter(row["cause"] or "" for row in retransmissions)
    by_count = sorted(causes.items(), key=lambda item: (-item[1], item[0]))
    phrases = [f"{packets:,} {CAUSES.get(cause, '')}".strip() for cause, packets in by_count]
    spurious = sum(row["needed"] is False for row in retransmissions)
    by_cause = f": {join(phrases)}" if phrases else ""
    return (
        f"The server retransmitted {counted(flow['retransmissions'], 'packet')}{by_cause}; "
        f"{_were(spurious, ' of them')} spurious, that is, of data that had arrived. Its "
        f"retransmission timer expired {_counted_if_known(flow['rto_expiries'], 'time')}."
    )


def _counted_if_known(number: int | None, noun: str) -> str:
    return f"an unknown number of {noun}s" if number is None else counted(number, noun)


def _were(number: int, of: str = "") -> str:
    return f"{number:,}{of} {'was' if number == 1 else 'were'}"
