"""Why a connection was as fast as it was: what the tables hold of it, in five sentences."""

from collections import Counter
from typing import Any

from spark_jobs.report.connection import Connection

LIMITS = {
    "channel": "the access link was busy",
    "receiver": "the mobile's window was full",
    "recovery": "losses were repaired, or had cut the congestion window",
    "slow_start": "the congestion window was still growing",
    "server": "the server had nothing to send",
    "mobile": "the mobile read or asked for nothing",
}
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
    "rto": "by timeout",
    "tlp": "to probe for a loss",
    "fast": "as duplicate ACKs or SACK blocks asked for",
    "slow_start": "in the slow start after a timeout",
    "probe": "to probe a closed window",
    "keepalive": "to keep it alive",
}


def why(connection: Connection) -> list[str]:
    """Five sentences on a connection."""
    flow = connection.flow
    return [
        _speed(flow),
        limits_sentence(flow),
        _losses(flow),
        _retransmissions(flow, connection.retransmissions.to_pylist()),
        stalls_sentence(connection.stalls.to_pylist()),
    ]


def _speed(flow: dict[str, Any]) -> str:
    seconds = (flow["end_ts"] - flow["start_ts"]).total_seconds()
    rate = flow["goodput"]
    speed = f"at {rate / 1000:,.1f} kbit/s" if rate else "too few for a rate"
    return (
        f"{flow['user']} was sent {flow['payload_bytes_down']:,} bytes by {flow['server']} port "
        f"{flow['server_port']}, {speed}, in a connection of {seconds:.1f} s from "
        f"{flow['start_ts']:%Y-%m-%d %H:%M:%S} UTC on."
    )


def limits_sentence(flow: dict[str, Any]) -> str:
    """What limited a connection, from its row of flows."""
    if flow["limited_by"] is None:
        return "What limited it is not known."
    times = {name: flow[f"limited_{name}"] for name in LIMITS}
    total = sum(times.values())
    parts = [
        f"{100 * seconds / total:.0f} % {LIMITS[name]}"
        for name, seconds in sorted(times.items(), key=lambda item: -item[1])
        if seconds >= 0.005 * total
    ]
    return f"Of {total:.1f} s, for {_listed(parts)}."


def _losses(flow: dict[str, Any]) -> str:
    if flow["lost_access"] is None:
        return "What was lost is not known, for the mobile's ACKs were not seen."
    median, least = flow["rtt_access_median"], flow["rtt_access_min"]
    trips = ""
    if median is not None and least is not None:
        trips = f"; the median RTT on the access side was {median:.2f} s, the least {least:.2f} s"
    return (
        f"Of {flow['data_packets_down']:,} data packets that Gi saw, {flow['lost_access']:,} were "
        f"lost behind it, and {flow['lost_internet']:,} before it{trips}."
    )


def _retransmissions(flow: dict[str, Any], again: list[dict[str, Any]]) -> str:
    if flow["retransmissions"] is None:
        return "Whether anything was retransmitted, and why, is not known."
    if not flow["retransmissions"]:
        return "The server sent nothing again."
    sent_again = [row for row in again if not row["new_data"]]
    causes = Counter(row["cause"] or "" for row in sent_again)
    by_count = sorted(causes.items(), key=lambda item: (-item[1], item[0]))
    parts = [f"{packets:,} {CAUSES.get(cause, '')}".strip() for cause, packets in by_count]
    needless = sum(row["needed"] is False for row in sent_again)
    told = f": {_listed(parts)}" if parts else ""
    return (
        f"The server sent {_counted(flow['retransmissions'], 'packet')} again{told}; {needless:,} of "
        f"these had arrived before, and its timer went off {_counted(flow['rto_expiries'], 'time')}."
    )


def stalls_sentence(stalls: list[dict[str, Any]]) -> str:
    """How it stalled, from its rows of stalls."""
    if not stalls:
        return "It never stalled."
    lasted = [(stall["end_ts"] - stall["start_ts"]).total_seconds() for stall in stalls]
    most, seconds = max(lasted), sum(lasted)
    longest = stalls[lasted.index(most)]
    lost = f", {longest['lost']} packets lost in it" if longest["lost"] else ""
    repaired = f", repaired after {longest['recovery']:.1f} s" if longest["recovery"] else ""
    return (
        f"It stalled {_counted(len(stalls), 'time')}, for {seconds:.1f} s in all, the longest for "
        f"{most:.1f} s ({longest['class'].replace('_', ' ')}{lost}{repaired})."
    )


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
