"""A connection's limits and stalls in sentences."""

from collections.abc import Sequence
from typing import Any

from spark_jobs.figures.limits_by_window.numbers import LIMIT_WORDS


def limits_sentence(flow: dict[str, Any]) -> str:
    """Return a sentence on the limits of a connection; flow: its row of flows."""
    times = {name: flow[f"limited_{name}"] for name in LIMIT_WORDS}
    if None in times.values() or not (total := sum(times.values())):
        return "The limits of the transfer are unknown."
    phrases = [
        f"{LIMIT_WORDS[name]} ({100 * seconds / total:.0f} %)"
        for name, seconds in sorted(times.items(), key=lambda item: -item[1])
        if seconds >= 0.005 * total
    ]
    return f"In the {total:.1f} s from the handshake to the ACK of the last data, {join(phrases)}."


def stalls_sentence(stalls: list[dict[str, Any]]) -> str:
    """Return a sentence on the stalls of a connection; stalls: its rows of stalls."""
    if not stalls:
        return "The connection never stalled."
    durations = [(stall["end_ts"] - stall["start_ts"]).total_seconds() for stall in stalls]
    max_duration, seconds = max(durations), sum(durations)
    longest = stalls[durations.index(max_duration)]
    lost = f": {counted(longest['lost'], 'packet')}" if longest["lost"] else ""
    after = (longest["recovery"] or 0) - max_duration
    repaired = (
        f" The stall ended when data moved again; the last loss was repaired {after:.1f} s later."
        if longest["lost"] and after > 0
        else ""
    )
    return (
        f"The connection stalled {counted(len(stalls), 'time')}, for {seconds:.1f} s in total. The "
        f"longest stall lasted {max_duration:.1f} s "
        f"({longest['class'].replace('_', ' ')}{lost}).{repaired}"
    )


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def join(phrases: Sequence[str]) -> str:
    """Return phrases as a list in words."""
    return phrases[0] if len(phrases) == 1 else ", ".join(phrases[:-1]) + " and " + phrases[-1]
