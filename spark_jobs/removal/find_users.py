"""Search for users: the rows about them, the captures with these rows, and other places."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from schemas import LEASES, Table
from spark_jobs.base.errors import UserError
from spark_jobs.base.places import in_object_store
from spark_jobs.capture.removal_filter import (
    FAR_END_COLUMN,
    KEY_COLUMNS,
    OWN_COLUMNS,
    TIME_COLUMNS,
    RemovalFilter,
    RemovedSpan,
    keys_by_column,
)
from spark_jobs.capture.untrusted import kind_of
from spark_jobs.capture.users import (
    PLAIN,
    PREFIXES,
    PSEUDONYM,
    ipv6_alias,
    user_keys,
    without_vlan,
)
from spark_jobs.figures.names import PLOTS, plot_file_name
from spark_jobs.figures.tables import EXAMPLES, TABLES
from spark_jobs.ingest.exclusions import (
    CAPTURE_TABLES,
    columns_with_users,
    forgotten_spans,
    key_scheme,
    previously_forgotten,
    with_spans,
)
from spark_jobs.removal.search import Scope, SearchReport, search_names
from spark_jobs.settings.networks import Network
from spark_jobs.users.subscribers import lease_spans
from spark_jobs.warehouse.facts import ForgottenFacts
from spark_jobs.warehouse.files import read_rows
from spark_jobs.warehouse.row_groups import stored_row_groups
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.targets import network_of

TABLES_WITH_USERS = [
    table for table in TABLES.values() if set(KEY_COLUMNS) & set(table.arrow.names)
]
FOREVER_US = 1 << 62


class FoundUsers(NamedTuple):
    """The rows about a network's users.

    - removed: the spans of these rows
    - excluded: the spans that stay out of the tables; those of users who were forgotten before are
      among them
    - networks: the networks that may have such rows
    """

    removed: ForgottenFacts
    excluded: ForgottenFacts
    networks: set[str]


def find_users(
    warehouse: Warehouse, owner: Network, users: list[str], others: Iterable[Network]
) -> FoundUsers:
    """Search the published tables for a network's users, and for the addresses that they had.

    others: the networks of the networks file.

    Raises UserError if a name is not known. A name (address) that occurs only as a server's is not
    a user's name.
    """
    users = [*map(without_vlan, users)]
    scope = _scope_of_names(warehouse, owner, others)
    now_us = time.time_ns() // 1000
    leases = _leases_of_users(warehouse, owner.name, users)
    names = [*users, *map(ipv6_alias, users)]
    wanted = {*names, *(address for address, *_ in leases)}
    known_at_far_end = {name for name in names if _may_be_user(owner, name, scope.own_names)}
    known, networks, future_spans = set[str](), set[str](), set[RemovedSpan]()
    for network in _networks(warehouse):
        columns = columns_with_users(owner.name, scope, network)
        tables, mentions = TABLES_WITH_USERS if columns else [], partial(_mentions, wanted, columns)
        for table, rows in _rows_about(warehouse, network, tables, mentions):
            networks.add(network)
            for column, texts in keys_by_column(rows).items():
                if network != owner.name:
                    known |= texts & known_at_far_end
                elif column != FAR_END_COLUMN:
                    known |= texts.intersection(names)
            if table in CAPTURE_TABLES:
                future_spans.update(_future_spans(rows, columns, names, now_us))
    _reject_unknown_users(warehouse, owner.name, users, known)
    spans = [RemovedSpan.from_key(*lease) for lease in leases]
    excluded = {
        *forgotten_spans(warehouse, owner.name),
        *spans,
        *future_spans,
        *(RemovedSpan.from_key(name, 0, now_us) for name in names),
    }
    removed = [*spans, *(RemovedSpan.from_key(name, 0, FOREVER_US) for name in names)]
    return FoundUsers(with_spans(scope, removed), with_spans(scope, excluded), networks)


def users_with_address(warehouse: Warehouse, network: Network, address: str) -> list[str]:
    """Return the names that a subscriber's address has in the tables, one for each key period.

    If none of them is in the tables, all are returned. Raises ValueError if the text is no address,
    and UserError if the address had owners by RADIUS.
    """
    keys = user_keys(network)
    days = [day for _, day in warehouse.days("day", network.name)] if keys.key_period else []
    of_periods = [keys.for_day(day) for day in days] or [keys]
    names = {of_period.key_of_address(address) for of_period in of_periods}
    leases = read_rows(LEASES, [p for p in warehouse.files(LEASES, network.name) if p.exists()])
    if names & set(leases["address"].to_pylist()):
        raise UserError(
            f"{address}: RADIUS logs show which users had this address, and when: forget them by "
            "their names (giscope pseudonym --name)"
        )
    with warehouse.connect("select from packets, flows") as connection:
        rows = connection.execute(
            """select "user" from packets where network = $1 and "user" in $2
            union select "user" from flows where network = $1 and "user" in $2""",
            [network.name, sorted(names)],
        ).fetchall()
    return sorted({name for (name,) in rows} or names)


def captures_about(warehouse: Warehouse, network: str, removed: RemovalFilter) -> list[str]:
    """Return the captures and logs with rows about users who are to be removed."""
    found: set[str] = set()
    for _, rows in _rows_about(warehouse, network, CAPTURE_TABLES, removed.may_match):
        found.update(rows.filter(pa.array(removed.matches(rows)))["capture"].unique().to_pylist())
    return sorted(found)


def _rows_about(
    warehouse: Warehouse,
    network: str,
    tables: Iterable[Table],
    may_be_about: Callable[[pa.Table], bool],
) -> Iterator[tuple[Table, pa.Table]]:
    """Yield, for tables of a network, the row groups that may be about a user (see row_groups)."""
    for table in tables:
        for path in warehouse.files(table, network):
            for rows in row_groups(path, table, may_be_about):
                yield table, rows


def row_groups(
    path: Path, table: Table, may_be_about: Callable[[pa.Table], bool] | None = None
) -> Iterator[pa.Table]:
    """Yield the row groups of a table's file; a missing file has none.

    may_be_about: decides by the KEY_COLUMNS of a row group whether it may be about a user. If
        given, the other row groups are left out, and only columns with users and times are read.

    Raises UserError if the file is damaged.
    """
    columns = None if may_be_about is None else ["capture", *KEY_COLUMNS, *TIME_COLUMNS]
    try:
        yield from stored_row_groups(path, table, columns, may_be_about, KEY_COLUMNS)
    except FileNotFoundError:
        return
    except (OSError, pa.ArrowException) as error:
        if in_object_store(path) and isinstance(error, OSError) and error.errno:
            raise  # the store's fault, not the file's
        raise UserError(
            f"{path}: cannot be read ({kind_of(error)}): remove it, and read its "
            "capture again with giscope run"
        ) from error


def search_for_users(
    warehouse: Warehouse, network: Network, users: list[str], others: Iterable[Network] = ()
) -> SearchReport:
    """Search the whole warehouse for the names of a network's users, and return what was found."""
    users = [*map(without_vlan, users)]
    names = _scope_of_names(warehouse, network, others)
    if names.own_names:
        return search_names(warehouse, users)
    pages = {
        f"{PLOTS}/{plot_file_name(flow_id)}"
        for other in _networks(warehouse)
        if other != network.name
        for flow_id in read_rows(EXAMPLES, warehouse.files(EXAMPLES, other), columns=["flow_id"])[
            "flow_id"
        ].to_pylist()
    }
    scope = Scope(network.name, frozenset(names.far_in), frozenset(pages))
    return search_names(warehouse, users, scope)


def _scope_of_names(
    warehouse: Warehouse, network: Network, others: Iterable[Network]
) -> ForgottenFacts:
    """Return where the names of a network's users mean these users.

    Pseudonyms mean the same users in all networks. An address may be that of another network's user
    or server, unless the networks have disjoint prefixes.
    """
    made_with = key_scheme(warehouse, network.name)
    if made_with is None:
        own_names = network.pseudonyms == "keyed"
    else:
        own_names = not {PLAIN, PREFIXES.decode()} & set(made_with.split())
    far_in = [
        other.name
        for other in others
        if other.name != network.name
        and not any(
            own.version == foreign.version and own.overlaps(foreign)
            for own in network.prefixes
            for foreign in other.prefixes
        )
    ]
    return ForgottenFacts(own_names=own_names, far_in=far_in)


def _networks(warehouse: Warehouse) -> list[str]:
    return [published.unit.network for published in warehouse.published_units("network")]


def _may_be_user(network: Network, name: str, unique_names: bool) -> bool:
    """Return whether a name at the far end of another network's rows may be this network's user."""
    if unique_names:
        return PSEUDONYM.fullmatch(name) is not None
    with suppress(ValueError):
        return any(ip_address(name.partition("/")[0]) in prefix for prefix in network.prefixes)
    return False


def _mentions(wanted: set[str], columns: Collection[str], rows: pa.Table) -> bool:
    """Return whether some columns of rows have a wanted name."""
    return any(wanted & texts for name, texts in keys_by_column(rows).items() if name in columns)


def _leases_of_users(
    warehouse: Warehouse, network: str, users: list[str]
) -> list[tuple[str, int, int]]:
    """Return the addresses that these users had, as (address, begin, end), from RADIUS messages.

    Begin and end are in µs since 1970.
    """
    paths = [path for path in warehouse.files(LEASES, network) if path.exists()]
    leases, begin, end = lease_spans(read_rows(LEASES, paths))
    rows = zip(
        leases["address"].to_pylist(),
        leases["subscriber"].to_pylist(),
        begin.tolist(),
        end.tolist(),
        strict=True,
    )
    return [
        (name, *span)
        for address, user, *span in rows
        if user in users
        for name in (address, ipv6_alias(address))
    ]


def _future_spans(
    rows: pa.Table, columns: Collection[str], users: list[str], now_us: int
) -> Iterator[RemovedSpan]:
    """Yield, for each user, the span of the rows about the user that are dated later than now."""
    times = next(rows[name] for name in TIME_COLUMNS if name in rows.column_names)
    times = times.cast(pa.int64()).to_numpy()
    for user in users if (times >= now_us).any() else ():
        span = RemovedSpan.from_key(user, now_us, FOREVER_US)
        found = times[RemovalFilter({name: [span] for name in columns}).matches(rows)]
        if len(found):
            yield span._replace(begin_us=int(np.min(found)), end_us=int(np.max(found)) + 1)


def _reject_unknown_users(
    warehouse: Warehouse, network: str, users: list[str], known: set[str]
) -> None:
    """Raise UserError if a name is not known.

    A name is known if it is in the tables, was forgotten before, or is in a superseded file that
    still exists.
    """
    earlier = previously_forgotten(warehouse, network, users)
    unknown = [
        user for user in users if not {user, ipv6_alias(user)} & known and user not in earlier
    ]
    if unknown:
        found = {
            place.name
            for place in search_names(warehouse, unknown).found
            if place.column in OWN_COLUMNS and network_of(place.path) == network
        }
        unknown = [user for user in unknown if user not in found]
    if unknown:
        raise UserError(
            *(
                f"{warehouse.root}: no user named {user} is known in {network}; nothing was "
                "removed: giscope pseudonym prints a user's name"
                for user in unknown
            )
        )
