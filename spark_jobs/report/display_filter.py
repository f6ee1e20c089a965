"""Conditions on a connection: addresses and ports, as Wireshark's display filters give them."""

import re
from collections import deque
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from spark_jobs.errors import UserError

WORD = re.compile(r"&&|==|[()]|[^\s()&=]+|\S")
END = "its end"


class Condition(NamedTuple):
    """A condition on the packets of a connection.

    end: addr, src, dst, port, srcport or dstport. value: the address, or the port.
    """

    end: str
    value: str | int


def port_number(text: str) -> int:
    """Return the number of a port; raise ValueError if the text is none."""
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > 0xFFFF:
        raise ValueError(f"{text}: not a port")
    return int(text)


FIELDS: dict[str, Callable[[str], str | int]] = {
    **dict.fromkeys(("ip.addr", "ip.src", "ip.dst"), lambda text: str(IPv4Address(text))),
    **dict.fromkeys(("ipv6.addr", "ipv6.src", "ipv6.dst"), lambda text: str(IPv6Address(text))),
    **dict.fromkeys(("tcp.port", "tcp.srcport", "tcp.dstport"), port_number),
}
"""By field: the function that reads its value."""


def parse_filter(text: str) -> list[Condition]:
    """Return the conditions that a filter joins; raise UserError if it has anything else."""
    try:
        return _expression(deque([*WORD.findall(text), END]), END)
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"--filter: {error} is not understood: use {', '.join(FIELDS)} with == or eq, joined "
            "by && or and, with parentheses"
        ) from error


def _expression(words: deque[str], closing: str) -> list[Condition]:
    found = _term(words)
    while (word := words.popleft()) in ("&&", "and"):
        found += _term(words)
    if word != closing:
        raise ValueError(word)
    return found


def _term(words: deque[str]) -> list[Condition]:
    field = words.popleft()
    if field == "(":
        return _expression(words, ")")
    if field not in FIELDS or words[0] not in ("==", "eq"):
        raise ValueError(field if field not in FIELDS else f"{field} {words[0]}")
    words.popleft()
    value = words.popleft()
    try:
        return [Condition(field.partition(".")[2], FIELDS[field](value))]
    except ValueError as error:
        raise ValueError(f"{field} == {value}") from error
