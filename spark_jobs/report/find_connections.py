"""Search for connections by what a user has: an address, a port, a time, a Wireshark filter."""

import datetime
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from schemas import FLOWS, LEASES, NETWORKS
from spark_jobs.base.errors import UserError, printable
from spark_jobs.capture.address_text import format_address, parse_address
from spark_jobs.capture.users import PLAIN, VLAN_MARK, UserKeys, user_keys
from spark_jobs.figures.examples.sentences import counted
from spark_jobs.report.display_filter import Condition, parse_filter, port_number
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse.facts import NetworkFacts
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit
from spark_jobs.warehouse.views import files_query

MAX_LISTED = 20
"""Maximum number of connections that a search lists."""
MAX_LENGTH = 4096
"""Maximum length of what a user searches for, in characters.

It also bounds the conditions and the parentheses of a filter.
"""
TIME = re.compile(
    r"([12]\d{3}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?:(:\d\d)(\.\d{1,6})?)?)?(Z|[+-]\d\d:\d\d)?"
)
PRECISION = (timedelta(days=1), timedelta(minutes=1), timedelta(seconds=1), timedelta())
"""Length of the time that a text means, by the number of parts after its date."""
OPTIONS = ("address", "time", "port", "filter", "network")
DIRECTIONS = ({"src": "user", "dst": "server"}, {"src": "server", "dst": "user"})
"""The ends that send and receive the packets, uplink and downlink."""
ADDRESS_ENDS = ("addr", "src", "dst")
"""Ends of conditions on addresses; the other ones are of ports."""
TIME_FORM = "%Y-%m-%d %H:%M:%S"
TEXT, NUMBER, MOMENT = pa.string(), pa.int64(), pa.timestamp("us", "UTC")
NAMES = pa.schema({"naming": NUMBER, "name": TEXT, "address": TEXT})
"""The names that the searched addresses have in the tables; naming: a network in a key period."""
DAYS = pa.schema(
    {"network": TEXT, "date": pa.date32(), "naming": NUMBER, "since": MOMENT, "until": MOMENT}
)
"""The searched days of each network, and the time; null without one."""
SEARCHED = """
    select flows.*, naming,
        if(since is null, null, greatest(0, epoch(start_ts - until), epoch(since - end_ts)))
            as distance
    from ({flows}) as flows join days using (network, date)
"""
"""SQL of the flows on these days; distance: see Found."""
WITH_ADDRESSES = """
    with flows as ({flows}), user_names as (
        select *, null::timestamptz as start_ts, null::timestamptz as end_ts from names
        union all
        select naming, subscriber, names.address, start_ts, end_ts
        from ({leases}) as leases join days using (network, date) join names using (naming)
        where leases.address = names.name
    )
    select *, (
        select list(address) from user_names as n
        where n.naming = flows.naming
            and n.name = regexp_replace(flows."user", '{mark}[0-9]+$', '')
            and (
                n.start_ts is null or flows.start_ts >= n.start_ts and flows.start_ts < n.end_ts
            )
    ) as user_addresses, (
        select list(address) from names as n
        where n.naming = flows.naming and n.name = flows.server
    ) as server_addresses
    from flows
    where regexp_replace("user", '{mark}[0-9]+$', '') in (select name from user_names)
        or server in (select name from names)
"""
"""SQL of the flows that have a searched address, with the addresses that each of their ends has.

A subscriber also has the addresses that it leases. All are looked up at once, so that the time does
not grow with their number.
"""


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
    """Return a search by texts; raise UserError if one is not valid or too long."""
    texts = zip(OPTIONS, (address, time, port, display_filter, network), strict=True)
    given = {option: _line(option, text) for option, text in texts if text}
    conditions = parse_filter(given["filter"]) if "filter" in given else []
    if "address" in given:
        conditions.append(Condition("addr", given["address"]))
    if "port" in given:
        try:
            conditions.append(Condition("port", port_number(given["port"])))
        except ValueError as error:
            raise UserError(f"--port {error}") from error
    return Search(
        conditions, parse_time(given["time"]) if "time" in given else None, given.get("network")
    )


def _line(option: str, text: str) -> str:
    """Return a text on one line; raise UserError if it is too long."""
    if len(text) > MAX_LENGTH:
        raise UserError(f"--{option}: {len(text):,} characters: use at most {MAX_LENGTH:,}")
    return printable(" ".join(text.split()))


def parse_time(text: str) -> Time:
    """Return a time such as 2004-03-29T17:45:10, 2004-03-29 17:45 or 2004-03-29T15:45:10Z."""
    match = TIME.fullmatch(text)
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
    wanted: dict[str, set[Any]] = {}
    for end, value in search.conditions:
        wanted.setdefault(end, set()).add(_standard(value) if isinstance(value, str) else value)
    addresses = set().union(*(wanted.get(end, ()) for end in ADDRESS_ENDS))
    days: list[tuple] = []
    namings: dict[tuple[str, UserKeys | None], int] = {}
    with warehouse.connect_to({NETWORKS: warehouse.files(NETWORKS)}) as database:
        zones = dict(database.sql("select network, timezone from networks").fetchall())
        for network, dates in _days(warehouse, search, zones).items():
            span = search.time.span(zones[network]) if search.time else (None, None)
            keys = _keys(warehouse, networks[network]) if network in networks else None
            for date in dates:
                naming = namings.setdefault((network, keys and keys.for_day(date)), len(namings))
                days.append((network, date, naming, *span))
        names = [(n, *row) for (_, keys), n in namings.items() for row in _names(addresses, keys)]
        database.register("names", _table(names, NAMES))
        database.register("days", _table(days, DAYS))
        flows, leases = (
            files_query(table, [path for day in days for path in warehouse.files(table, *day[:2])])
            for table in (FLOWS, LEASES)
        )
        rows_of = SEARCHED.format(flows=flows)
        if addresses:
            rows_of = WITH_ADDRESSES.format(flows=rows_of, leases=leases, mark=VLAN_MARK)
        answer = database.sql(
            f"""
            with matching as (
                from ({rows_of}) where {" or ".join(_test(wanted, ends) for ends in DIRECTIONS)}
            )
            select network, date, flow_id, start_ts, server, server_port, payload_bytes_down,
                distance, count(*) over () as total
            from matching
            where not distance > 0 or not exists (select 1 from matching where distance = 0)
            order by distance, start_ts, flow_id limit {MAX_LISTED}
            """,
            params={end: [*values] for end, values in wanted.items()},
        )
        rows = answer.to_arrow_table().to_pylist()
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
        has_address = any(condition.end in ADDRESS_ENDS for condition in search.conditions)
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


def _standard(address: str) -> str:
    """Return the usual text of an address; a text that is none is a pseudonym, and stays."""
    with suppress(ValueError):
        return format_address(parse_address(address))
    return address


def _names(addresses: Iterable[str], keys: UserKeys | None) -> set[tuple[str, str]]:
    """Return the names that addresses may have, each with its address; keys: those of a day."""
    packed = {}
    for text in addresses:
        with suppress(ValueError):
            packed[text] = parse_address(text)
    found = {(text, text) for text in addresses}
    if packed and keys and keys.pools:
        from spark_jobs.capture.addresses import AddressTable, split_halves, subscriber_prefixes

        prefixes = subscriber_prefixes(own.prefix for own in keys.pools.subscribers[0])
        table = AddressTable(prefixes, len(packed))
        numbers = np.array([table.add(*halves) for halves in split_halves(packed.values())])
        found.update(zip(keys.names(table, numbers), packed, strict=True))
    return found


def _table(rows: list[tuple], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def _test(wanted: Iterable[str], direction: Mapping[str, str]) -> str:
    """Return SQL: whether packets of a direction have all that is wanted at their ends."""
    tests = ["true"]
    for end in wanted:
        side = end.removesuffix("port")
        kind = "addresses" if end in ADDRESS_ENDS else "port"
        either = [direction[side]] if side in direction else direction.values()
        values = f"[{', '.join(f'{of}_{kind}' for of in either)}]"
        values = f"flatten({values})" if end in ADDRESS_ENDS else values
        tests.append(f"list_has_all({values}, ${end})")
    return f"({' and '.join(tests)})"
