"""What users do, and with which servers: `plan`, `SERVERS`."""

from collections.abc import Iterator
from typing import NamedTuple

from tests.programs.lab.profile import Profile

STACKS = {"aioquic": 10, "quinn": 20}
"""Stacks, with the last byte of their first server's address."""
HOSTS = {"retry": 1, "drop": 3, "reject": 4, "hello-retry": 5, "few-acks": 6}
"""Scenarios with servers of their own, after the first one."""
PORTS = {"port4433": 4433, "port8443": 8443}
FIRST_PORT = 20000
"""The port of a user's first connection; the next ones have the next ports."""
MOVED, TRANSLATED = 5000, 10000
"""From there to the port that a client moves to, and to the one that a NAT chooses later."""


class User(NamedTuple):
    """A user's line of the plan: connections, one after the other, with their objects."""

    stack: str
    address: str
    scenario: str
    server: str
    port: int
    bytes: int
    objects: int
    times: int
    pause: float
    start: float
    first_port: int


def plan(profile: Profile) -> Iterator[User]:
    """Yields the users of a profile whose groups are named STACK SCENARIO ..."""
    for address, group in profile.users():
        stack, scenario, *_ = group.name.split()
        load = group.load
        yield User(
            stack,
            address,
            scenario,
            server(stack, scenario),
            PORTS.get(scenario, 443),
            load.bytes or 0,
            load.objects or 1,
            load.times or 1,
            load.pause,
            load.start,
            FIRST_PORT,
        )


def server(stack: str, scenario: str) -> str:
    return f"198.51.100.{STACKS[stack] + HOSTS.get(scenario, 0)}"


def listening(stack: str) -> list[str]:
    """Returns ADDRESS:PORT of a stack's servers, with /SCENARIO of those that have their own."""
    usual = server(stack, "download")
    own = ("retry", *(("hello-retry", "few-acks") if stack == "quinn" else ()))
    ports = [f"{usual}:{port}" for port in (443, *PORTS.values())]
    return ports + [f"{server(stack, scenario)}:443/{scenario}" for scenario in own]


def first_port(port: int) -> int:
    """Returns the first port of the connection that has this one."""
    return FIRST_PORT + port % MOVED
