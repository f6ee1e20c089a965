"""Search for connections by what a user has: an address, a port, a time, a Wireshark filter."""

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from schemas import FLOWS, LEASES, NETWORKS
from spark_jobs.capture.address_text import format_address, parse_address
from spark_jobs.capture.users import PLAIN, UserKeys, user_keys
from spark_jobs.errors import UserError
from spark_jobs.figures.examples.sentences import counted
from spark_jobs.networks import Network, period_of
from spark_jobs.report.display_filter import Condition, parse_filter, port_number
from spark_jobs.warehouse.facts import NetworkFacts
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit
from spark_jobs.warehouse.views import files_query

MAX_LISTED = 20
"""Maximum number of connections that a search lists."""
TIME = re.compile(
    r"([12]\d{3}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?:(:\d\d)(\.\d{1,6})?)?)?(Z|[+-]\d\d:\d\d)?"
)
PRECISION = (timedelta(days=1), timedelta(minutes=1), timedelta(seconds=1), timedelta())
"""Length of the time that a text means, by the number of parts after its date."""
DIRECTIONS = ({"src": "user", "dst": "server"}, {"src": "server", "dst": "user"})
"""The ends that send and receive the packets, uplink and downlink."""
TIME_FORM = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True)
class Time:
    """A time that a user gives: text, and for how long it lasts; without an offset, it is local."""

    begin: datetime.datetime
    length: timedelta

    def span(self, zone: str) -> tuple[datetime.datetime, datetime.datetime]:
        """Return its first and last moment in a network with this time zone."""
        aware = self.begin if self.begin.tzinfo else self.begin.replace(tzinfo=ZoneInfo(zone))
        begin = aware.astimezone(datetime.UTC)
        return begin, begin + max(self.length - timedelta(microseconds=1), timedelta())


@dataclass(frozen=True)
class Search:
    """A search for connections by the knowledge that a user has."""

    conditions: list[Condition]
    time: Time | None = None
    network: str | None = None


class Found(NamedTuple):
    """The connections found: the first MAX_LISTED of their rows, and the number of all.

    If some are in progress at the time, others do not count. Each row has network, date, flow_id,
    start_ts, server, server_port and payload_bytes_down, and distance: how far the connection's
    life is from the time (s); None without a time.
    """

    rows: list[dict[str, Any]]
    total: int

    @property
    def only(self) -> dict[str, Any] | None:
        """Return the connection if there is only one, or one in progress at the time."""
        fits = [row for row in self.rows if not row["distance"]]
        return fits[0] if len(fits) == 1 else None


def search_of(
    address: str | None = None,
    time: str | None = None,
    port: str | None = None,
    display_filter: str | None = None,
    network: str | None = None,
) -> Search:
    """Return a search by texts; raise UserError if one is not valid, or if all are missing."""
    conditions = parse_filter(display_filter) if display_filter else []
    if address:
        conditions.append(Condition("addr", address.strip()))
    if port:
        try:
            conditions.append(Condition("port", port_number(port.strip())))
        except ValueError as error:
            raise UserError(f"--port {error}") from error
    return Search(conditions, parse_time(time) if time else None, network or None)


def parse_time(text: str) -> Time:
    """Return a time such as 2004-03-29T17:45:10, 2004-03-29 17:45 or 2004-03-29T15:45:10Z."""
    match = TIME.fullmatch(text.strip())
    try:
        if not match:
            raise ValueError
        return Time(
            datetime.datetime.fromisoformat(match[0]),
            PRECISION[sum(match[part] is not None for part in (2, 3, 4))],
        )
    except ValueError as error:
        raise UserError(
            f"--time {text}: not a time such as 2004-03-29T17:45:10 (local time of the network) or "
            "2004-03-29T15:45:10Z"
        ) from error


def find_connections(
    warehouse: Warehouse, search: Search, networks: Mapping[str, Network]
) -> Found:
    """Return the connections that a search finds, the nearest to its time first.

    networks: the networks by name, whose keys give the pseudonyms of subscribers. In others, an
    address is found only where it is stored as it is. Raises UserError without the right key.
    """
    if search.network and not warehouse.days("day", search.network):
        raise UserError(f"{warehouse.root}: no network {search.network} in it")
    parts = []
    parameters = _Parameters()
    with warehouse.connect_to({NETWORKS: warehouse.files(NETWORKS)}) as database:
        zones = dict(database.sql("select network, timezone from networks").fetchall())
        for network, days in _days(warehouse, search, zones).items():
            span = search.time.span(zones[network]) if search.time else None
            keys = _keys(warehouse, networks[network]) if network in networks else None
            for same_names in _by_period(days, keys):
                flows, leases = (
                    [path for day in same_names for path in warehouse.files(table, network, day)]
                    for table in (FLOWS, LEASES)
                )
                names = _Names(keys.for_day(same_names[0]) if keys else None, parameters)
                parts.append(f"""
                    select *, {_distance(span, parameters)} as distance
                    from ({files_query(FLOWS, flows)}) as flows
                    where {names.condition(search.conditions, files_query(LEASES, leases))}
                """)
        if not parts:
            return Found([], 0)
        answer = database.execute(
            f"""
            with matching as ({" union all ".join(parts)})
            select network, date, flow_id, start_ts, server, server_port, payload_bytes_down,
                distance, count(*) over () as total
            from matching
            where not distance > 0 or not exists (select 1 from matching where distance = 0)
            order by distance, start_ts, flow_id limit {MAX_LISTED}
            """,
            parameters.values,
        )
        columns = [column[0] for column in answer.description]
        rows = [dict(zip(columns, row, strict=True)) for row in answer.fetchall()]
    return Found(rows, rows[0]["total"] if rows else 0)


def only_connection(
    warehouse: Warehouse, search: Search, networks: Mapping[str, Network]
) -> dict[str, Any]:
    """Return the row of the one connection that a search finds.

    Raises UserError if there is none, or with a list of them if there are several.
    """
    found = find_connections(warehouse, search, networks)
    if found.only:
        return found.only
    first, *others = explain(warehouse, search, found, bool(networks))
    raise UserError(f"{first}: choose one by its FLOW_ID" if others else first, *others)


def explain(warehouse: Warehouse, search: Search, found: Found, with_keys: bool) -> list[str]:
    """Return lines on a search that did not find one connection."""
    if not found.rows:
        has_address = any(c.end in ("addr", "src", "dst") for c in search.conditions)
        hint = (
            ": subscribers' addresses are stored as pseudonyms: give --networks to find them"
            if has_address and not with_keys
            else ""
        )
        return [f"{warehouse.root}: no such connection{hint}"]
    distance = found.rows[0]["distance"]
    when = {None: "", 0: " in progress then"}.get(
        distance, ", none in progress then, nearest first"
    )
    listed = f"; the first {MAX_LISTED} are listed" if found.total > MAX_LISTED else ""
    return [
        f"{counted(found.total, 'connection')}{when}{listed}",
        *map(in_words, found.rows),
    ]


def in_words(row: dict[str, Any]) -> str:
    """Return a found connection in a line."""
    return (
        f"{row['flow_id']}  {row['start_ts'].strftime(TIME_FORM)} UTC  {row['network']}  "
        f"{row['server']} port {row['server_port']}  {counted(row['payload_bytes_down'], 'byte')}"
    )


def _days(
    warehouse: Warehouse, search: Search, zones: Mapping[str, str]
) -> dict[str, list[datetime.date]]:
    """Return the days on which the connections may have begun, by network."""
    found: dict[str, list[datetime.date]] = {}
    for network, day in warehouse.days("day", search.network):
        if network not in zones:
            continue
        if search.time:
            begin, end = search.time.span(zones[network])
            if not begin.date() - timedelta(1) <= day <= end.date() + timedelta(1):
                continue
        found.setdefault(network, []).append(day)
    return found


def _keys(warehouse: Warehouse, network: Network) -> UserKeys:
    """Return the keys of a network's users; raise UserError if the warehouse has other keys."""
    keys = user_keys(network)
    published = warehouse.published(Unit("network", network.name))
    if published and NetworkFacts.of(published).users not in (None, PLAIN, keys.key_scheme):
        raise UserError(
            f"{warehouse.root}: the users of {network.name} in it are pseudonyms of another key or "
            "key_period: use that one"
        )
    return keys


def _by_period(
    days: Iterable[datetime.date], keys: UserKeys | None
) -> Iterator[list[datetime.date]]:
    """Yield the days on which addresses have the same names."""
    by_names: dict[tuple, list[datetime.date]] = {}
    for day in days:
        all_keys = (keys, *keys.other_networks) if keys else ()
        by_names.setdefault(tuple(period_of(k.key_period, day) for k in all_keys), []).append(day)
    yield from by_names.values()


class _Parameters:
    """Values of a query, which its SQL names."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def add(self, value: Any) -> str:
        """Return the SQL that stands for a value."""
        name = f"value{len(self.values)}"
        self.values[name] = value
        return f"${name}"


def _distance(
    span: tuple[datetime.datetime, datetime.datetime] | None, parameters: _Parameters
) -> str:
    """Return the SQL of the time between a connection's life and a span (s), or of null."""
    if span is None:
        return "null::double"
    begin, end = map(parameters.add, span)
    return f"greatest(0, epoch(start_ts - {end}), epoch({begin} - end_ts))"


@dataclass
class _Names:
    """The conditions of a search as SQL, with the names that addresses have in the tables.

    keys: those of the days that are searched.
    """

    keys: UserKeys | None
    parameters: _Parameters

    def condition(self, conditions: list[Condition], leases: str) -> str:
        """Return the SQL of all conditions; leases: SQL of the leases of these days.

        A connection matches if a packet of it does, in one of the two directions.
        """
        return " or ".join(
            "(" + " and ".join(["true", *(self._test(c, ends, leases) for c in conditions)]) + ")"
            for ends in DIRECTIONS
        )

    def _test(self, condition: Condition, ends: Mapping[str, str], leases: str) -> str:
        end = condition.end.removesuffix("port")
        either = [ends[end]] if end in ends else [*ends.values()]
        if condition.end.endswith("port"):
            value = self.parameters.add(condition.value)
            tests = [f"{of}_port = {value}" for of in either]
        else:
            names = self.parameters.add(self._names(str(condition.value)))
            tests = [f'list_contains({names}, flows."{of}")' for of in either]
            if "user" in either:
                tests.append(f"""exists (
                    select 1 from ({leases}) as leases
                    where list_contains({names}, leases.address)
                    and leases.subscriber = flows."user"
                    and flows.start_ts >= leases.start_ts and flows.start_ts < leases.end_ts
                )""")
        return "(" + " or ".join(tests) + ")"

    def _names(self, text: str) -> list[str]:
        """Return the names that an address may have; a text that is none is a pseudonym."""
        try:
            packed = parse_address(text)
        except ValueError:
            return [text]
        names = [format_address(packed)]
        if self.keys and self.keys.pools:
            from spark_jobs.capture.addresses import (
                AddressTable,
                split_halves,
                subscriber_prefixes,
            )

            addresses = AddressTable(subscriber_prefixes(self.keys.pools.subscribers[0]), 1)
            high, low = split_halves([packed])[0]
            names += self.keys.names(addresses, np.array([addresses.add(high, low)]))
        return names
