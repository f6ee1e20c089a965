"""The networks file: which networks there are, whose addresses are subscribers, local hours."""

import re
import tomllib
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Self
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from spark_jobs.errors import UserError


def _known_timezone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"no such time zone: {name!r}") from error
    return name


Hour = Annotated[int, Field(ge=0, le=24)]


Share = Annotated[float, Field(ge=0, le=1)]


class QualityLimits(BaseModel):
    """[network.quality]: what holds a day back. Each has a check of its name in `quality`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    unread_captures: Annotated[int, Field(ge=0)] = 0
    """Most captures that gave nothing or end before their end."""
    skipped_share: Share = 0.01
    """Most frames that the front end could not read."""
    copied_share: Share = 0.001
    """Most packets that lie in two captures; each is a resend to what follows."""
    acked_unseen_share: Share = 0.001
    """Most bytes acknowledged though never seen; well below the losses to be measured."""
    one_way_share: Share = 0.05
    """Most connections of which one direction was not seen."""
    without_syn_share: Share = 0.2
    """Most connections whose SYN was not seen."""
    peak_flows: Annotated[int, Field(ge=0)] = 1
    """Fewest connections in the peak hours."""
    volume_ratio: Annotated[float, Field(gt=1)] = 2.0
    """Farthest from the median of the earlier same weekdays, as a factor up or down."""
    volume_weeks: Annotated[int, Field(ge=1)] = 8
    """How far back these weekdays go."""
    volume_fewest_days: Annotated[int, Field(ge=1)] = 3
    """With fewer of them the volume is not checked."""


class Network(BaseModel):
    """One [[network]] of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    country: Annotated[str, Field(pattern=r"^[A-Z]{2}$")]
    access: Annotated[str, Field(min_length=1)]
    timezone: Annotated[str, AfterValidator(_known_timezone)]
    subscribers: Annotated[tuple[IPv4Network | IPv6Network, ...], Field(min_length=1)]
    peak_hours: tuple[Hour, Hour] = (10, 12)
    off_peak_hours: tuple[Hour, Hour] = (3, 7)
    flight_size_bytes: Annotated[int, Field(gt=0)] = 4500
    initial_rto_s: Annotated[float, Field(gt=0)] = 1.0
    """What servers wait for the first ACK before they send again (RFC 6298, 2.1)."""
    least_rto_s: Annotated[float, Field(gt=0)] = 0.2
    """The least that servers allow for the deviation of round trips (Linux), or wait (RFC 6298)."""
    slot_rate: Annotated[float, Field(gt=0)] | None = None
    """Nominal rate of one time slot, bit/s at the IP layer."""
    buckets: Annotated[int, Field(ge=1, le=65536)] = 16
    """Into how many parts the users of a day are split, each one task of the flows job."""
    quality: QualityLimits = QualityLimits()

    @model_validator(mode="after")
    def _hours_in_order(self) -> Self:
        for key in ("peak_hours", "off_peak_hours"):
            start, end = getattr(self, key)
            if start >= end:
                raise ValueError(f"{key}: [{start}, {end}] must rise")
        return self


def load_networks(path: Path) -> dict[str, Network]:
    """The file's networks by name; a UserError names the file, the network and the key."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not TOML: {error}") from error
    entries = raw.get("network")
    if not isinstance(entries, list) or not entries:
        raise UserError(f"{path}: no [[network]] in it")
    networks: dict[str, Network] = {}
    for number, entry in enumerate(entries, 1):
        network = _checked(path, number, entry)
        if network.name in networks:
            raise UserError(f"{path}: two networks are named {network.name!r}")
        networks[network.name] = network
    return networks


def _checked(path: Path, number: int, entry: object) -> Network:
    name = entry.get("name", f"number {number}") if isinstance(entry, dict) else f"number {number}"
    try:
        return Network.model_validate(entry)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(
            str(part) for part in first["loc"] if not re.match(r"IPv\dNetwork", str(part))
        )
        reason = first["msg"].removeprefix("Value error, ")
        raise UserError(f"{path}: network {name}: {key + ': ' if key else ''}{reason}") from error


def find_network(networks: dict[str, Network], name: str, path: Path) -> Network:
    """The network of that name; a UserError that lists the known ones."""
    if name not in networks:
        raise UserError(f"{path}: no network {name!r}; it has {', '.join(sorted(networks))}")
    return networks[name]
