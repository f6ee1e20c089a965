"""The networks file: which networks there are, whose addresses are subscribers, local hours."""

import json
import tomllib
from collections.abc import Iterable
from datetime import date
from ipaddress import IPv4Network, IPv6Network, ip_interface, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    Strict,
    ValidationError,
    create_model,
    model_validator,
)

from schemas import RETENTION_GROUPS, TABLES, Table
from spark_jobs.errors import UserError


def _known_timezone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError("no such time zone") from error
    return name


def _prefix(value: object) -> object:
    """Text as a prefix; ip_network would take a number for an address."""
    if isinstance(value, IPv4Network | IPv6Network):
        return value
    if not isinstance(value, str):
        raise ValueError('should be a prefix in quotes, as "10.64.0.0/14"')
    try:
        network = ip_interface(value).network
    except ValueError as error:
        raise ValueError("no prefix of IPv4 or IPv6") from error
    try:
        return ip_network(value)
    except ValueError as error:
        raise ValueError(f"has bits set beyond its length; the prefix is {network}") from error


def _of_rfc6052(network: IPv4Network | IPv6Network) -> IPv6Network:
    lengths = ", ".join(map(str, NAT64_LENGTHS))
    if network.version != 6 or network.prefixlen not in NAT64_LENGTHS:
        raise ValueError(f"should be a prefix of IPv6 of {lengths} bits (RFC 6052)")
    if network.network_address.packed[8]:
        raise ValueError("bits 64 to 71 should be 0 (RFC 6052)")
    return network


def _rising(hours: tuple[int, int]) -> tuple[int, int]:
    if hours[0] >= hours[1]:
        raise ValueError("must rise")
    return hours


NAT64_LENGTHS = (32, 40, 48, 56, 64, 96)
"""Of the prefixes behind which addresses of IPv4 are embedded in those of IPv6 (RFC 6052, 2.2)."""

Hour = Annotated[int, Field(ge=0, le=24)]
Hours = Annotated[tuple[Hour, Hour], Strict(False), AfterValidator(_rising)]
Prefix = Annotated[IPv4Network | IPv6Network, BeforeValidator(_prefix)]
Nat64Prefix = Annotated[Prefix, AfterValidator(_of_rfc6052)]
Share = Annotated[float, Field(ge=0, le=1)]
KeyPeriod = Literal["day", "week", "month", "year"]


def period_of(length: KeyPeriod | None, day: date) -> str:
    """The period that a day (UTC) lies in, by name; weeks begin on Mondays (ISO 8601). Without
    periods none."""
    names = {"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m", "year": "%Y"}
    return day.strftime(names[length]) if length else ""


MODEL = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
REASONS = {
    "extra_forbidden": "no such key",
    "missing": "is missing",
    "model_type": "should be a table",
    "tuple_type": "should be a list",
}
"""Pydantic's errors by type, where its own words are not TOML's."""
LONGEST_VALUE = 60
MOST_MIN_USERS = 32
"""Users are counted by groups, of which there are 64: some 45 users are in 32 of them."""


class QualityLimits(BaseModel):
    """[network.quality]: what holds a day back. Each has a check of its name in `quality`."""

    model_config = MODEL

    unread_captures: Annotated[int, Field(ge=0)] = 0
    """Most captures that gave nothing or end before their end."""
    skipped_share: Share = 0.01
    """Most frames that the front end could not read."""
    copied_share: Share = 0.001
    """Most packets that lie in two captures; each is a retransmission to what follows."""
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


class Retention(
    create_model(  # type: ignore[misc]
        "Days",
        __config__=MODEL,
        **dict.fromkeys(
            [*RETENTION_GROUPS, *(t.name for tables in RETENTION_GROUPS.values() for t in tables)],
            (Annotated[int, Field(ge=1)] | None, None),
        ),
    )
):
    """[network.retention]: for how many days tables are kept; for ever where they are not named.
    With packets go the logs of Zeek and the single connections shown as examples, with flows the
    tables beside them; marts: all of these, the checks and ingest_log."""

    @property
    def days(self) -> dict[Table, int]:
        """By table."""
        named = self.model_dump(exclude_none=True)
        together = {
            table: named[name]
            for name, tables in RETENTION_GROUPS.items()
            if name in named
            for table in tables
        }
        return together | {TABLES[name]: days for name, days in named.items() if name in TABLES}


class Network(BaseModel):
    """One [[network]] of the file."""

    model_config = MODEL

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    country: Annotated[str, Field(pattern=r"^[A-Z]{2}$")]
    access: Annotated[str, Field(min_length=1)]
    timezone: Annotated[str, AfterValidator(_known_timezone)]
    subscribers: Annotated[tuple[Prefix, ...], Field(min_length=1), Strict(False)]
    nat64: Annotated[tuple[Nat64Prefix, ...], Strict(False)] = ()
    """Prefixes of the site's translators, beside the well-known 64:ff9b::/96: whose addresses embed
    one of IPv4. They hold for every network of the file."""
    peak_hours: Hours = (10, 12)
    off_peak_hours: Hours = (3, 7)
    flight_size_bytes: Annotated[int, Field(gt=0)] = 4500
    initial_rto_s: Annotated[float, Field(gt=0)] = 1.0
    """What servers wait for the first ACK before they retransmit (RFC 6298, 2.1)."""
    min_rto_s: Annotated[float, Field(gt=0)] = 0.2
    """The least that servers allow for the deviation of round trips (Linux), or wait (RFC 6298)."""
    pseudonyms: Literal["keyed", "prefix", "none"] = "keyed"
    """prefix: those of addresses are addresses that have their common prefixes; none: subscribers'
    addresses and RADIUS names are kept as they are (see capture/users.py)."""
    servers: Literal["kept", "cut", "hashed"] = "kept"
    """What is said of the Internet side's addresses: hashed with the key of the pseudonyms."""
    key_period: KeyPeriod | None = None
    """How long a pseudonym stays the same: in the next period there is another key."""
    slot_rate: Annotated[float, Field(gt=0)] | None = None
    """Nominal rate of one time slot, bit/s at the IP layer."""
    user_partitions: Annotated[int, Field(ge=1, le=65536)] = 16
    """Into how many parts the users of a day are split, each one task of the flows job."""
    min_users: Annotated[int, Field(ge=0, le=MOST_MIN_USERS)] = 0
    """Cells of the marts that are of fewer users are left out (see marts/suppressed_groups.py)."""
    retention: Retention = Retention()
    quality: QualityLimits = QualityLimits()
    _others: tuple["Network", ...] = PrivateAttr(())

    @property
    def others(self) -> tuple["Network", ...]:
        """The file's other networks whose subscribers have pseudonyms, as the far ends of this
        network's connections, too. Without those prefixes that lie within this network's own."""
        return self._others

    @property
    def needs_key(self) -> bool:
        """Whether there are pseudonyms in the network's tables."""
        return self.pseudonyms != "none" or bool(self._others)

    def among(self, networks: Iterable["Network"]) -> Self:
        """The network as one of these: it knows the others, and their nat64 prefixes."""
        networks = sorted(networks, key=lambda network: network.name)
        nat64 = sorted({prefix for network in networks for prefix in network.nat64})
        found = self.model_copy(update={"nat64": tuple(nat64)})
        others = [n for n in networks if n.name != self.name and n.pseudonyms != "none"]
        found._others = tuple(other for n in others for other in n._without(self.subscribers))
        return found

    def _without(self, prefixes: Iterable[IPv4Network | IPv6Network]) -> list["Network"]:
        """The network without those of its prefixes that lie within others; none, if that is
        all."""
        left = [
            prefix
            for prefix in self.subscribers
            if not any(_is_within(prefix, other) for other in prefixes)
        ]
        return [self.model_copy(update={"subscribers": tuple(left)})] if left else []

    def with_plain_addresses(self) -> Self:
        """The network without pseudonyms, of its own subscribers or others."""
        found = self.model_copy(update={"pseudonyms": "none", "key_period": None})
        found._others = ()
        return found

    @model_validator(mode="after")
    def _has_a_key(self) -> Self:
        if self.servers == "hashed" and self.pseudonyms == "none":
            raise ValueError("servers are hashed with the key of the pseudonyms: these are none")
        if self.key_period and self.pseudonyms != "keyed":
            raise ValueError(f"key_period is of keyed pseudonyms: these are {self.pseudonyms}")
        return self


def _is_within(prefix: Any, other: Any) -> bool:
    """Whether one prefix is the other, or a part of it."""
    return prefix.version == other.version and prefix.subnet_of(other)


def load_networks(path: Path) -> dict[str, Network]:
    """The file's networks by name, each of which knows the others; a UserError names, in a line for
    each mistake, the file, the network, the key, its value and what is wrong with it."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{path}: not TOML: {error}") from error
    entries = raw.get("network")
    if not isinstance(entries, list) or not entries:
        raise UserError(f"{path}: no [[network]] in it")
    networks: dict[str, Network] = {}
    mistakes: list[str] = []
    for number, entry in enumerate(entries, 1):
        try:
            network = Network.model_validate(entry)
        except ValidationError as error:
            told = entry.get("name") if isinstance(entry, dict) else None
            name = told if isinstance(told, str) else f"number {number}"
            mistakes += [f"{path}: network {name}: {text}" for text in _mistakes(error)]
        else:
            if network.name in networks:
                mistakes.append(f"{path}: two networks are named {network.name!r}")
            networks[network.name] = network
    if mistakes:
        raise UserError(*mistakes)
    return {name: network.among(networks.values()) for name, network in networks.items()}


def _mistakes(error: ValidationError) -> list[str]:
    """Key, value and reason of each; what is wrong with a list is not said beside its parts'."""
    found = error.errors()
    places = [one["loc"] for one in found]
    return [
        _mistake(one["loc"], one["input"], REASONS.get(one["type"], one["msg"]))
        for one in found
        if not any(at != one["loc"] and at[: len(one["loc"])] == one["loc"] for at in places)
    ]


def _mistake(place: tuple[int | str, ...], value: Any, reason: str) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    if len(text) > LONGEST_VALUE:
        text = f"{text[:LONGEST_VALUE]}..."
    key = ".".join(map(str, place))
    said = [key, "" if reason == REASONS["missing"] else text, reason.removeprefix("Value error, ")]
    return ": ".join(filter(None, said))


def find_network(networks: dict[str, Network], name: str, path: Path) -> Network:
    """The network of that name; a UserError that lists the known ones."""
    if name not in networks:
        raise UserError(f"{path}: no network {name!r}; it has {', '.join(sorted(networks))}")
    return networks[name]
