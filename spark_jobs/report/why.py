"""Explanation of a connection's throughput in five lines, from the tables."""

from collections import Counter
from typing import Any

from spark_jobs.report.connection import Connection

LIMITS = {
    "channel": "the access link was busy",
    "receiver": "the mobile's window was full",
    "recovery": "the server recovered from losses, or had a smaller congestion window after them",
    "slow_start": "the congestion window was still growing",
    "server": "the server had no data to send",
    "mobile": "the mobile read no data or sent no request",
}
"""Limits of a transfer in words."""
LIMIT_COLOURS = {
    "channel": "#8fb4d9",
    "receiver": "#e6c27a",
    "recovery": "#e69a7a",
    "slow_start": "#c3aed6",
    "server": "#c9c9c9",
    "mobile": "#b9d7a8",
}
CAUSES = {
    "synack": "SYN ACKs",
    "rto": "at an RTO expiry",
    "tlp": "as loss probes",
    "fast": "after duplicate ACKs or SACK blocks",
    "slow_start": "in slow start after an RTO expiry",
    "probe": "as window probes",
    "keepalive": "as keep-alives",
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
        f"{flow['server']} port {flow['server_port']} sent {flow['payload_bytes_down']:,} bytes to "
        f"{flow['user']}, {goodput}, in a connection of {seconds:.1f} s that began at "
        f"{flow['start_ts']:%Y-%m-%d %H:%M:%S} UTC."
    )


def limits_sentence(flow: dict[str, Any]) -> str:
    """Return a sentence on the limits of a connection; flow: its row of flows."""
    if flow["limited_by"] is None:
        return "The limits of the transfer are unknown."
    times = {name: flow[f"limited_{name}"] for name in LIMITS}
    total = sum(times.values())
    phrases = [
        f"{LIMITS[name]} ({100 * seconds / total:.0f} %)"
        for name, seconds in sorted(times.items(), key=lambda item: -item[1])
        if seconds >= 0.005 * total
    ]
    return f"In the {total:.1f} s from the handshake to the ACK of the last data, {_join(phrases)}."


def _losses(flow: dict[str, Any]) -> str:
    if flow["lost_access"] is None:
        return "The losses are unknown, as Gi did not see the mobile's ACKs."
    median, minimum = flow["rtt_access_median"], flow["rtt_access_min"]
    rtt = ""
    if median is not None and minimum is not None:
        rtt = f". The RTT on the access side: median {median:.2f} s, minimum {minimum:.2f} s"
    return (
        f"Of the {_count(flow['data_packets_down'], 'data packet')} that Gi saw, "
        f"{flow['lost_access']:,} were lost on the access side. The Internet side lost "
        f"{_count(flow['lost_internet'], 'packet')}{rtt}."
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
    by_cause = f": {_join(phrases)}" if phrases else ""
    return (
        f"The server retransmitted {_count(flow['retransmissions'], 'packet')}{by_cause}; "
        f"{spurious:,} of them were spurious, that is, of data that had arrived. Its "
        f"retransmission timer expired {_count(flow['rto_expiries'], 'time')}."
    )


def stalls_sentence(stalls: list[dict[str, Any]]) -> str:
    """Return a sentence on the stalls of a connection; stalls: its rows of stalls."""
    if not stalls:
        return "The connection never stalled."
    durations = [(stall["end_ts"] - stall["start_ts"]).total_seconds() for stall in stalls]
    max_duration, seconds = max(durations), sum(durations)
    longest = stalls[durations.index(max_duration)]
    lost = f": {_count(longest['lost'], 'packet')}" if longest["lost"] else ""
    after = (longest["recovery"] or 0) - max_duration
    repaired = (
        f" The stall ended when data moved again; the last loss was repaired {after:.1f} s later."
        if longest["lost"] and after > 0
        else ""
    )
    return (
        f"The connection stalled {_count(len(stalls), 'time')}, for {seconds:.1f} s in total. The "
        f"longest stall lasted {max_duration:.1f} s "
        f"({longest['class'].replace('_', ' ')}{lost}).{repaired}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _join(phrases: list[str]) -> str:
    return phrases[0] if len(phrases) == 1 else ", ".join(phrases[:-1]) + " and " + phrases[-1]
