"""Conditions on a connection: addresses and ports, as Wireshark's display filters give them."""

import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from spark_jobs.base.errors import UserError

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
    """Return the conditions that a filter joins; raise UserError if it has anything else.

    As only "and" joins them, parentheses change nothing, and are only counted.
    """
    words = iter([*WORD.findall(text), END])
    found: list[Condition] = []
    opened, may_end = 0, False
    try:
        while (word := next(words)) != END or opened or not may_end:
            if not may_end and word == "(":
                opened += 1
            elif not may_end:
                found.append(_condition(word, next(words, END), next(words, END)))
                may_end = True
            elif word == ")" and opened:
                opened -= 1
            elif word in ("&&", "and"):
                may_end = False
            else:
                raise ValueError(word)
    except ValueError as error:
        raise UserError(
            f"--filter: {error} is not understood: use {', '.join(FIELDS)} with == or eq, joined "
            "by && or and, with parentheses"
        ) from error
    return found


def _condition(field: str, comparison: str, value: str) -> Condition:
    if field not in FIELDS or comparison not in ("==", "eq"):
        raise ValueError(field if field not in FIELDS else f"{field} {comparison}")
    try:
        return Condition(field.partition(".")[2], FIELDS[field](value))
    except ValueError as error:
        raise ValueError(f"{field} == {value}") from error
