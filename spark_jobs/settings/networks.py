"""The networks file: the operator networks, their subscribers' addresses, and their settings."""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
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

from schemas import Table
from spark_jobs.base.errors import UserError
from spark_jobs.base.secret_files import read_small_file
from spark_jobs.figures.tables import RETENTION_GROUPS, TABLES


def _known_timezone(name: str) -> str:
    if place := WITHOUT_SUMMER_TIME.get(name):
        raise ValueError(
            f'has no summer time: name a place, such as "{place[0]}", or "{place[1]}", which has '
            "no summer time"
        )
    try:
        if name.startswith(("localtime", "posix", "right/")):  # DuckDB does not know these
            raise ValueError
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(
            'no such time zone: name a place as the IANA database does, such as "Europe/London"'
        ) from error
    return name


def _prefix(value: object) -> object:
    """Return a text as an IP prefix. Numbers are rejected: ip_network takes them for addresses."""
    if isinstance(value, IPv4Network | IPv6Network):
        return value
    if not isinstance(value, str):
        raise ValueError('should be a prefix in quotes, as "10.64.0.0/14"')
    try:
        network = ip_interface(value).network
    except ValueError as error:
        raise ValueError("not an IPv4 or IPv6 prefix") from error
    try:
        return ip_network(value)
    except ValueError as error:
        raise ValueError(f"has bits set beyond its length; the prefix is {network}") from error


def _nat64_prefix(network: IPv4Network | IPv6Network) -> IPv6Network:
    lengths = ", ".join(map(str, NAT64_LENGTHS))
    if network.version != 6 or network.prefixlen not in NAT64_LENGTHS:
        raise ValueError(f"should be an IPv6 prefix of {lengths} bits (RFC 6052)")
    if network.network_address.packed[8]:
        raise ValueError("bits 64 to 71 should be 0 (RFC 6052)")
    return network


def _some_hours(hours: tuple[int, int]) -> tuple[int, int]:
    if hours[0] in (24, hours[1]):
        raise ValueError("should be two different hours from 0 to 24, such as [10, 12] or [23, 5]")
    return hours


def hours_within(hours: tuple[int, int]) -> set[int]:
    """Return the hours from the first to the second, perhaps over midnight, as of a clock."""
    first, until = hours
    return {hour % 24 for hour in range(first, until if first < until else until + 24)}


def _network_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise ValueError(
            "should be 1 to 100 letters from A to Z, digits, points, hyphens and underscores, and "
            "begin with a letter or a digit"
        )
    return name


def _country_code(country: str) -> str:
    if not re.fullmatch("[A-Z]{2}", country):
        raise ValueError("should be the two capital letters of ISO 3166, such as GB")
    return country


WITHOUT_SUMMER_TIME = {
    "EST": ("America/New_York", "America/Panama"),
    "MST": ("America/Denver", "America/Phoenix"),
    "HST": ("America/Adak", "Pacific/Honolulu"),
}
"""Time zones without summer time that are named like those with it; places with and without it."""
USER_BITS = {4: 32, 6: 64}
"""Default of Subscribers.user, by the version of IP."""
NAT64_LENGTHS = (32, 40, 48, 56, 64, 96)
"""Lengths of the prefixes that embed IPv4 addresses in IPv6 addresses (RFC 6052, 2.2)."""

Hour = Annotated[int, Field(ge=0, le=24)]
Hours = Annotated[tuple[Hour, Hour], Strict(False), AfterValidator(_some_hours)]
Prefix = Annotated[IPv4Network | IPv6Network, BeforeValidator(_prefix)]
Nat64Prefix = Annotated[Prefix, AfterValidator(_nat64_prefix)]
Vlan = Annotated[int, Field(ge=1, lt=1 << 24)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
Seconds = Annotated[float, Field(ge=1e-6, le=3600)]
Share = Annotated[float, Field(ge=0, le=1)]
KeyPeriod = Literal["day", "week", "month", "year"]
Area = Literal["none", "area", "cell"]
"""Detail of users' places that is stored: none; location, routing or tracking area; cell."""
Device = Literal["none", "model"]
"""Detail of users' devices that is stored: none; the model, that is, the type allocation code."""
BUSIEST = "busiest"
"""Value of peak_hours in the file: the traffic of earlier days decides the hours of a day."""


def period_of(length: KeyPeriod | None, day: date) -> str:
    """Return the name of the period that a UTC day is in; an empty text if there are no periods.

    Weeks begin on Mondays (ISO 8601).
    """
    names = {"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m", "year": "%Y"}
    return day.strftime(names[length]) if length else ""


MODEL = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
REASONS = {
    "extra_forbidden": "no such key",
    "missing": "is missing",
    "model_type": "should be a table",
    "tuple_type": "should be a list",
}
"""Messages for some types of pydantic's errors, in TOML's terms."""
MAX_VALUE_CHARS = 60
"""Maximum number of characters of a value that a message quotes."""
MAX_MIN_USERS = 32
"""Maximum of min_users.

Users are counted by their user groups, of which there are 64: some 45 users are in 32 groups.
"""


class QualityLimits(BaseModel):
    """[network.quality]: the limits of the checks that hold a day.

    Each limit has a check of the same name in the table `quality`.
    """

    model_config = MODEL

    unread_captures: Count = 0
    """Maximum number of captures that gave nothing or are cut off."""
    skipped_share: Share = 0.01
    """Maximum share of frames that the front end could not read."""
    copied_share: Share = 0.001
    """Maximum share of packets that are in two captures.

    The estimators see the second of them as a retransmission.
    """
    acked_unseen_share: Share = 0.001
    """Maximum share of acknowledged bytes that were not seen.

    It must be well below the loss ratios to be measured.
    """
    one_way_share: Share = 0.05
    """Maximum share of connections that were seen in one direction only."""
    without_syn_share: Share = 0.2
    """Maximum share of connections whose SYN was not seen."""
    peak_flows: Count = 1
    """Minimum number of connections in the peak hours, if the file sets these or this number."""
    volume_ratio: Annotated[float, Field(gt=1, le=1e6)] = 2.0
    """Maximum factor, up or down, from the median volume of earlier days of the same weekday."""
    volume_weeks: Annotated[int, Field(ge=1, le=520)] = 8
    """Number of weeks that these earlier days go back."""
    volume_fewest_days: Positive = 3
    """Minimum number of these earlier days; with fewer, the volume is not checked."""


class Retention(
    create_model(  # type: ignore[misc]
        "Days",
        __config__=MODEL,
        **dict.fromkeys(
            [*RETENTION_GROUPS, *(t.name for tables in RETENTION_GROUPS.values() for t in tables)],
            (Annotated[int, Field(ge=1, le=36500)] | None, None),
        ),
    )
):
    """[network.retention]: the number of days for which tables are kept.

    A table without a number is kept for ever. Some numbers are for several tables:

    packets: also the logs of Zeek, and the connections shown as examples
    flows: also the tables beside them
    marts: all marts, the checks and ingest_log
    """

    @property
    def days(self) -> dict[Table, int]:
        """Return the number of days by table."""
        named = self.model_dump(exclude_none=True)
        together = {
            table: named[name]
            for name, tables in RETENTION_GROUPS.items()
            if name in named
            for table in tables
        }
        return together | {TABLES[name]: days for name, days in named.items() if name in TABLES}


class Subscribers(BaseModel):
    """One prefix of subscribers: a text, or { prefix = TEXT, user = BITS }."""

    model_config = MODEL

    prefix: Prefix
    user: Annotated[int, Field(ge=1, le=128)] | None = None
    """Number of leading bits that the addresses of one user have in common; see user_bits."""

    @property
    def user_bits(self) -> int:
        """Return the number of leading bits that one user's addresses have in common.

        By default, a user is an IPv4 address, or an IPv6 prefix of 64 bits, which 3GPP gives to
        each PDN connection (TS 23.401, 5.3.1.2.2; RFC 6459, 5.2).
        """
        shortest = USER_BITS[self.prefix.version]
        return self.user if self.user is not None else max(shortest, self.prefix.prefixlen)

    def __str__(self) -> str:
        return f"{self.prefix} user {self.user_bits}"

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        return value if isinstance(value, dict | cls) else {"prefix": _prefix(value)}

    @model_validator(mode="after")
    def _user_is_within(self) -> Self:
        first, last = self.prefix.prefixlen, self.prefix.max_prefixlen
        if not first <= self.user_bits <= last:
            raise ValueError(f"user should be a number of bits from {first} to {last}")
        return self


class Network(BaseModel):
    """One [[network]] of the file.

    Attributes without a description are explained in infra/networks.toml.
    """

    model_config = MODEL

    name: Annotated[str, AfterValidator(_network_name)]
    country: Annotated[str, AfterValidator(_country_code)]
    access: Annotated[str, Field(min_length=1, max_length=100)]
    timezone: Annotated[str, AfterValidator(_known_timezone)]
    subscribers: Annotated[tuple[Subscribers, ...], Field(min_length=1), Strict(False)]
    vlans: Annotated[tuple[Vlan, ...], Strict(False)] = ()
    """The VLANs (see schemas.PACKETS) whose frames are of this network; empty: all frames are."""
    nat64: Annotated[tuple[Nat64Prefix, ...], Strict(False)] = ()
    """Prefixes of NAT64 translators besides the well-known 64:ff9b::/96 (RFC 6052).

    Their addresses embed IPv4 addresses. The prefixes hold for every network of the file.
    """
    peak_hours: Annotated[
        Hours | None, BeforeValidator(lambda value: None if value == BUSIEST else value)
    ] = (10, 12)
    """Peak hours of each day; None: those that BUSIEST stands for."""
    off_peak_hours: Hours = (3, 7)
    flight_size_bytes: Positive = 4500
    initial_rto_s: Seconds = 1.0
    """Time that servers wait for the first ACK before they retransmit (RFC 6298, 2.1)."""
    min_rto_s: Seconds = 0.2
    """Minimum that servers add to the smoothed RTT (Linux), or minimum RTO (RFC 6298).

    If it is 1 s or more, servers are first assumed to follow RFC 6298, and else Linux.
    """
    pseudonyms: Literal["keyed", "prefix", "none"] = "keyed"
    """Kind of the pseudonyms.

    prefix: pseudonyms of addresses are addresses; those with a common prefix keep it in common
    none: subscribers' addresses and RADIUS names are kept as they are (see capture/users.py)
    """
    servers: Literal["kept", "cut", "hashed"] = "kept"
    """Form of the addresses on the Internet side; "hashed" uses the key of the pseudonyms."""
    key_period: KeyPeriod | None = None
    """Time for which a pseudonym stays the same: each period has another key."""
    slot_rate: Annotated[float, Field(ge=1, le=1e12)] | None = None
    """Nominal rate of one time slot (bit/s at the IP layer)."""
    user_partitions: Annotated[int, Field(ge=1, le=65536)] = 16
    """Number of user partitions of a day; each is read by one task of the flows job."""
    area: Area = "none"
    device: Device = "none"
    min_users: Annotated[int, Field(ge=0, le=MAX_MIN_USERS)] = 0
    """Minimum number of users of a group in the marts (see figures/suppressed_groups)."""
    retention: Retention = Retention()
    quality: QualityLimits = QualityLimits()
    _others: tuple["Network", ...] = PrivateAttr(())

    @property
    def sets_peak_hours(self) -> bool:
        """Return whether the file gives the peak hours, and so wants connections in them."""
        return self.peak_hours is not None and "peak_hours" in self.model_fields_set

    @property
    def prefixes(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """Return the prefixes of the network's subscribers."""
        return tuple(own.prefix for own in self.subscribers)

    @property
    def others(self) -> tuple["Network", ...]:
        """Return the other networks of the file whose subscribers have pseudonyms.

        Their subscribers may be the far ends of this network's connections. Prefixes that lie
        within this network's own are left out.
        """
        return self._others

    @property
    def needs_key(self) -> bool:
        """Return whether the network's tables have pseudonyms."""
        return self.pseudonyms != "none" or bool(self._others)

    def with_others(self, networks: Iterable["Network"]) -> Self:
        """Return the network with the file's other networks and all nat64 prefixes of the file."""
        networks = sorted(networks, key=lambda network: network.name)
        nat64 = sorted({prefix for network in networks for prefix in network.nat64})
        found = self.model_copy(update={"nat64": tuple(nat64)})
        others = [n for n in networks if n.name != self.name and n.pseudonyms != "none"]
        found._others = tuple(other for n in others for other in n._without_prefixes(self.prefixes))
        return found

    def _without_prefixes(self, prefixes: Iterable[IPv4Network | IPv6Network]) -> list["Network"]:
        """Return the network without those of its prefixes that lie within `prefixes`, in a list.

        The list is empty if no prefix is left.
        """
        left = [
            own
            for own in self.subscribers
            if not any(_is_within(own.prefix, other) for other in prefixes)
        ]
        return [self.model_copy(update={"subscribers": tuple(left)})] if left else []

    def with_plain_addresses(self) -> Self:
        """Return the network without pseudonyms, for its own subscribers and for others."""
        found = self.model_copy(update={"pseudonyms": "none", "key_period": None})
        found._others = ()
        return found

    @model_validator(mode="after")
    def _hours_are_apart(self) -> Self:
        if self.peak_hours is None:
            if "off_peak_hours" in self.model_fields_set:
                raise ValueError(f'peak_hours = "{BUSIEST}" sets off_peak_hours, too: leave it out')
        elif hours_within(self.peak_hours) & hours_within(self.off_peak_hours):
            raise ValueError(
                f"peak_hours = {list(self.peak_hours)} and off_peak_hours = "
                f"{list(self.off_peak_hours)} overlap: set both"
            )
        return self

    @model_validator(mode="after")
    def _has_a_key(self) -> Self:
        if self.servers == "hashed" and self.pseudonyms == "none":
            raise ValueError('servers = "hashed" needs a key, and pseudonyms = "none" has none')
        if self.key_period and self.pseudonyms != "keyed":
            raise ValueError(f'key_period needs pseudonyms = "keyed", not "{self.pseudonyms}"')
        return self


def _is_within(prefix: Any, other: Any) -> bool:
    """Return whether one prefix equals the other or is a part of it."""
    return prefix.version == other.version and prefix.subnet_of(other)


def load_networks(path: Path) -> dict[str, Network]:
    """Return the file's networks by name; each has the others (see Network.others).

    Raises UserError with a line for each mistake: the file, the network, the key, its value, and
    the reason.
    """
    try:
        raw = tomllib.loads(read_small_file(path))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
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
            raw_name = entry.get("name") if isinstance(entry, dict) else None
            name = raw_name if isinstance(raw_name, str) else f"number {number}"
            mistakes += [f"{path}: network {name}: {text}" for text in _mistakes(error)]
        else:
            if network.name in networks:
                mistakes.append(f"{path}: two networks are named {network.name!r}")
            networks[network.name] = network
    if mistakes:
        raise UserError(*mistakes)
    return {name: network.with_others(networks.values()) for name, network in networks.items()}


def _mistakes(error: ValidationError) -> list[str]:
    """Return key, value and reason of each mistake.

    A list with mistakes in its elements is not reported itself.
    """
    found = error.errors()
    locations = [detail["loc"] for detail in found]
    return [
        _mistake(detail["loc"], detail["input"], _reason(detail))
        for detail in found
        if not any(
            location != detail["loc"] and location[: len(detail["loc"])] == detail["loc"]
            for location in locations
        )
    ]


def _reason(detail: Mapping[str, Any]) -> str:
    return REASONS.get(detail["type"], detail["msg"])


def _mistake(location: tuple[int | str, ...], value: Any, reason: str) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    if len(text) > MAX_VALUE_CHARS:
        text = f"{text[:MAX_VALUE_CHARS]}..."
    key = ".".join(map(str, location))
    parts = [
        key,
        "" if reason == REASONS["missing"] else text,
        reason.removeprefix("Value error, "),
    ]
    return ": ".join(filter(None, parts))


def find_network(networks: dict[str, Network], name: str, path: Path) -> Network:
    """Return the network of that name. Raises UserError, which lists the known networks."""
    if name not in networks:
        raise UserError(f"{path}: no network {name!r}; it has {', '.join(sorted(networks))}")
    return networks[name]
