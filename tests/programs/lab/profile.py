"""The profile of a lab's network: `Profile`, read from TOML.

What stands in `[access]` and `[load]` applies to every group that does not override it. A value of
a group that is a list stands for as many groups, one for each combination; its name is then a
pattern: `name = "MSS {mss}, {load_connections} at a time"`.
"""

import datetime
import itertools
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

Probability = float


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Internet(Part):
    """The path between the servers and Gi, the same for all, either way."""

    delay: NonNegativeFloat = Field(0.05, description="one way, s")
    jitter: NonNegativeFloat = Field(0, description="standard deviation of the delay, s; in order")
    loss: Probability = 0
    overtaken: Probability = Field(0, description="a packet takes a detour; others overtake it")
    detour: NonNegativeFloat = Field(0, description="what that takes more, s")


class Preemption(Part):
    """Calls take all time slots of a link repeatedly (Wennström, Brunstrom and Rendón).

    While they last nothing passes. When they begin, the head of the queue is lost: what the base
    station controller held. Afterwards the link stays silent until the mobile sends something, or
    until a packet comes for it; what the mobile has to send is dropped when it waits too long."""

    every: PositiveFloat = Field(description="from the end of one until the next begins, s")
    seconds: PositiveFloat = Field(description="how long each lasts")
    flush: NonNegativeFloat = Field(0, description="lost from the queue's head, B")
    uplink_lifetime: PositiveFloat = Field(description="how long the mobile holds a packet, s")


class Handover(Part):
    """The link serves at a part of its rate for a while; nothing is lost."""

    at: list[NonNegativeFloat] = Field(description="s after the recording's begin")
    seconds: PositiveFloat
    rate: Probability = Field(description="of the usual rate")


class Sharing(Part):
    """Others on the same channels: the rate is drawn anew from time to time."""

    rates: list[PositiveFloat] = Field(description="equally likely, bit/s")
    seconds: PositiveFloat = Field(description="mean time, exponential, until it is drawn anew")


class Access(Part):
    """A mobile's own link, both ways; in order."""

    rate: PositiveFloat = Field(description="downlink at the IP layer, bit/s")
    uplink: PositiveFloat = Field(description="uplink at the IP layer, bit/s")
    delay: NonNegativeFloat = Field(description="one way, beside queue and service, s")
    jitter: NonNegativeFloat = Field(0, description="mean of what is added, exponential, s")
    repeats: Probability = Field(
        0, description="a block is lost on the air and retransmitted (RLC)"
    )
    repeat_delay: NonNegativeFloat = Field(0, description="what that takes each time, s")
    loss: Probability = Field(0, description="of downlink packets, on the air")
    uplink_loss: Probability = 0
    queue: PositiveInt = Field(1_000_000, description="what waits at most, B")
    lifetime: PositiveFloat | None = Field(None, description="how long a packet waits at most, s")
    mark_above: PositiveInt | None = Field(
        None, description="what waits before packets that can be marked are marked (ECN), B"
    )
    setup: NonNegativeFloat = Field(0, description="a link idle for 2 s needs this to begin, s")
    sharing: Sharing | None = None
    preemption: Preemption | None = None
    handover: Handover | None = None


class Load(Part):
    """What a mobile fetches, repeatedly: objects over connections of its own; a connection
    that has fetched one asks for the next."""

    bytes: PositiveInt | None = Field(None, description="an object's size")
    seconds: PositiveFloat | None = Field(None, description="or for how long the server sends it")
    objects: PositiveInt | None = Field(None, description="null: one a connection")
    connections: PositiveInt = 1
    times: PositiveInt | None = Field(None, description="loads in all; null: until the end")
    pause: NonNegativeFloat = Field(1, description="between loads, s")
    start: NonNegativeFloat = Field(1, description="the first one's begin, s")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.bytes is None) == (self.seconds is None):
            raise ValueError("a load has bytes or seconds")
        return self

    @property
    def path(self) -> str:
        """The path that the server is asked for."""
        return f"/seconds/{self.seconds}" if self.seconds else f"/bytes/{self.bytes}"


class Group(Part):
    """Users of one kind."""

    name: str
    users: PositiveInt = 1
    sack: bool = True
    timestamps: bool = True
    ecn: int = Field(0, description="tcp_ecn of the mobiles' kernel: 1 asks for ECN (RFC 3168)")
    mss: PositiveInt | None = Field(None, description="that the mobile announces; null: 1460")
    window: PositiveInt | None = Field(None, description="offered at most, B; null: Linux's own")
    window_segments: PositiveInt | None = Field(None, description="the same, in segments of MSS")
    access: Access
    load: Load

    @property
    def receive_window(self) -> int | None:
        """Bytes that the mobile offers at most; None: as Linux does."""
        return self.window_segments * (self.mss or 1460) if self.window_segments else self.window

    @property
    def options(self) -> int:
        """The number of its pair of options: 1 with SACK, + 2 with timestamps."""
        return self.sack + 2 * self.timestamps


class Profile(Part):
    title: str
    start: datetime.datetime = Field(description="what the recording's clock shows at its begin")
    seconds: PositiveFloat
    seed: int
    congestion_control: str = "reno"
    sysctl: dict[str, int] = Field(default={}, description="of net.ipv4, in the servers' kernel")
    initial_window: PositiveInt = Field(10, description="the servers', segments")
    internet: Internet
    groups: list[Group] = Field(min_length=1)

    def users(self) -> Iterator[tuple[str, Group]]:
        """Yields each user's address and group; the address's second byte encodes the options."""
        for number, group in enumerate(self.groups):
            for user in range(group.users):
                yield f"10.{64 + group.options}.{number}.{1 + user}", group


def read(path: Path) -> Profile:
    """Raises pydantic's ValidationError for what is missing or not known."""
    said = tomllib.loads(path.read_text())
    shared = {name: said.pop(name) for name in ("access", "load") if name in said}
    groups = [
        each for group in said.get("groups", []) for each in _combinations(_merged(shared, group))
    ]
    return Profile.model_validate(said | {"groups": groups})


def _merged(general: dict[str, Any], special: dict[str, Any]) -> dict[str, Any]:
    both = {
        name: _merged(general[name], value)
        for name, value in special.items()
        if isinstance(value, dict) and isinstance(general.get(name), dict)
    }
    return general | special | both


def _combinations(group: dict[str, Any]) -> Iterator[dict[str, Any]]:
    flat = dict(_flat(group))
    lists = {path: values for path, values in flat.items() if isinstance(values, list)}
    lists = {path: values for path, values in lists.items() if path[-1] not in ("at", "rates")}
    for values in itertools.product(*lists.values()):
        chosen = dict(zip(lists, values, strict=True))
        words = {"_".join(path): value for path, value in (flat | chosen).items()}
        made: dict[str, Any] = {}
        for path, value in (flat | chosen | {("name",): group["name"].format(**words)}).items():
            place = made
            for name in path[:-1]:
                place = place.setdefault(name, {})
            place[path[-1]] = value
        yield made


def _flat(
    group: dict[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in group.items():
        if isinstance(value, dict):
            yield from _flat(value, (*path, name))
        else:
            yield (*path, name), value
