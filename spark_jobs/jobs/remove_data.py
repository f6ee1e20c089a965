"""Removal of users (`giscope forget`) and of old days (`giscope purge`) from the warehouse.

`forget` removes the rows about a user from every table, and the files that had them. Then it
rebuilds, from the remaining rows, the tables that depended on them: flows and the other tables of a
day, checks, marts and the report. If the packets of a day were purged, its flows cannot be rebuilt:
`forget` only removes the user's rows from them. Marts whose inputs were purged cannot be rebuilt
either. They stay unchanged, because they have counts of groups of users and no rows about one user.

`purge` removes a table's days before a given day, and the files that had them. Tables that were
made from the removed rows stay as they are.

A removal begins with one transaction of the catalog. It records what all jobs leave out from now on
(users as hashes), and that a removal is in progress (PENDING). Each later step may be repeated. The
last step records that the removal has ended. Until then the next `forget`, `purge` or `run`
continues with it.

A user's *name* is what the tables call the user: a pseudonym, or an address in a network without
pseudonyms. A *span* is a name and a time interval: rows about the user from this interval are left
out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from schemas import FLOWS, INGEST_LOG, LEASES, PACKETS, Table
from spark_jobs.capture.ingest_log import restage_log_row
from spark_jobs.capture.removal_filter import (
    FAR_END_COLUMN,
    KEY_COLUMNS,
    TIME_COLUMNS,
    RemovalFilter,
    RemovedSpan,
    drop_rows,
    keys_by_column,
    spans_from_facts,
    spans_to_facts,
)
from spark_jobs.capture.users import (
    PLAIN,
    ipv6_alias,
    key_content_hash,
    make_secret,
    secret,
    secret_check,
)
from spark_jobs.errors import UserError
from spark_jobs.figures.names import PLOTS, plot_file_name
from spark_jobs.figures.tables import EXAMPLES, RETENTION_GROUPS, TABLES
from spark_jobs.jobs.exclusions import (
    CAPTURE_TABLES,
    exclusions_from_facts,
    forgotten_unit,
    has_unique_names,
    may_be_user,
    networks_with_disjoint_prefixes,
)
from spark_jobs.jobs.refresh import refresh, refresh_pages
from spark_jobs.networks import Network
from spark_jobs.warehouse.facts import CaptureFacts
from spark_jobs.warehouse.staging import Staging
from spark_jobs.warehouse.store import Change, Warehouse
from spark_jobs.warehouse.targets import Partition, network_of, stem, table_name
from spark_jobs.warehouse.units import PublishedUnit, Unit

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from spark_jobs.warehouse.search import SearchReport

DAY_KINDS = ("day", "leases", "marts", "quality")
"""Kinds of units that belong to one day."""
TABLES_WITH_USERS = [
    table for table in TABLES.values() if set(KEY_COLUMNS) & set(table.arrow.names)
]
PENDING = Unit("removal", "all")
"""The unit whose facts are the Removal in progress. If it has no facts, none is in progress."""
FOREVER_US = 1 << 62


@dataclass(frozen=True)
class Removal:
    """A removal, as the catalog stores it in JSON.

    users: for each network, the spans of the users to remove (see exclusions.forgotten_unit), with
        keyed hashes of the names; each covers all times
    networks: the networks that have rows about these users: name -> its entry in the networks file,
        or None if it has none
    purged: the days to remove, as (network, table, first day that is kept)
    tables: names of tables whose superseded files are removed, too
    """

    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    networks: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    purged: list[list[str]] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)


class RemovalResult(NamedTuple):
    """The result of a removal: the number of rows about users, and the tables that had old days."""

    rows: int
    tables: set[Table]


def is_pending(warehouse: Warehouse) -> bool:
    """Return whether a removal was interrupted."""
    commit = warehouse.published(PENDING)
    return commit is not None and bool(commit.facts)


def finish_pending(warehouse: Warehouse) -> RemovalResult:
    """Finish the removal in progress, if there is one.

    It removes the rows and days, makes tables again from the remaining rows, and removes the files
    that had the removed rows.
    """
    if not is_pending(warehouse):
        return RemovalResult(0, set())
    commit = warehouse.published(PENDING)
    assert commit is not None
    removal = Removal(**commit.facts)
    with warehouse.update_views_once():
        rows = _remove_users(warehouse, removal)
        tables = _purge_days(warehouse, removal)
        settings = [
            Network.model_validate(network) for network in removal.networks.values() if network
        ]
        refresh(warehouse, settings, removal.networks)
        refresh_pages(warehouse)
    if removal.tables:
        warehouse.erase_history(TABLES[name] for name in removal.tables)
    warehouse.publish(PENDING, [], {})
    return RemovalResult(rows, tables)


def forget(
    warehouse: Warehouse, network: Network, users: list[str], others: Iterable[Network] = ()
) -> int:
    """Remove the rows about some of a network's users; return the number of removed rows.

    In another network, a row about one of that network's users can name a removed user as the far
    end of the connection. These rows are removed as well. others: all networks of the networks
    file.

    Rows of all times are removed. If a capture is read again after the removal, the users' packets
    from before the removal are left out. If rows about the users are dated in the future, because a
    monitor's clock was ahead, packets of these times are left out, too. Other packets that are
    captured after the removal are kept.

    Raises UserError if a name is not known; then nothing is removed.
    """
    finish_pending(warehouse)
    _require_secret(warehouse, network.name)
    known = {other.name: other for other in (*others, network)}
    name_scope = {
        "own_names": has_unique_names(warehouse, network),
        "far_in": networks_with_disjoint_prefixes(network, known.values()),
    }
    leases = _leases_of_users(warehouse, network.name, users)
    names = [*users, *map(ipv6_alias, users)]
    all_networks = {commit.unit.network for commit in warehouse.published_units("network")}
    now_us = time.time_ns() // 1000
    with ExitStack() as stack:
        for name in sorted(all_networks):
            stack.enter_context(warehouse.locked(_content_lock(name)))
        occurrences = _find_users(
            warehouse, network, name_scope, names, {address for address, *_ in leases}, now_us
        )
        _reject_unknown_users(warehouse, network.name, users, occurrences)
        commit = warehouse.published(forgotten_unit(network.name))
        earlier_spans = spans_from_facts(commit.facts, network.name) if commit else ()
        spans = [RemovedSpan.from_key(*lease) for lease in leases]
        excluded_spans = {
            *earlier_spans,
            *spans,
            *occurrences.future_spans,
            *(RemovedSpan.from_key(name, 0, now_us) for name in names),
        }
        removed_spans = [*spans, *(RemovedSpan.from_key(name, 0, FOREVER_US) for name in names)]
        removal = Removal(
            users={network.name: spans_to_facts(removed_spans) | name_scope},
            networks={
                name: known[name].model_dump(mode="json") if name in known else None
                for name in sorted(occurrences.networks)
            },
            tables=list(TABLES),
        )
        facts = spans_to_facts(excluded_spans) | name_scope
        warehouse.publish_all(
            [
                Change(forgotten_unit(network.name), [], facts),
                Change(PENDING, [], asdict(removal)),
            ]
        )
    return finish_pending(warehouse).rows


def previously_forgotten(warehouse: Warehouse, network: str, users: Iterable[str]) -> list[str]:
    """Return those of a network's users who were forgotten before."""
    commit = warehouse.published(forgotten_unit(network))
    hashes = (
        {span.key_hash for span in spans_from_facts(commit.facts, network)} if commit else set()
    )
    return [user for user in users if RemovedSpan.from_key(user, 0, 0).key_hash in hashes]


def search_for_users(
    warehouse: Warehouse, network: Network, users: list[str], others: Iterable[Network] = ()
) -> SearchReport:
    """Search the whole warehouse for the names of a network's users, and return what was found."""
    from spark_jobs.warehouse.files import read_rows
    from spark_jobs.warehouse.search import Scope, search_names

    if has_unique_names(warehouse, network):
        return search_names(warehouse, users)
    far_in = {*networks_with_disjoint_prefixes(network, others), network.name}
    rows = {
        commit.unit.network: read_rows(
            EXAMPLES, warehouse.files(EXAMPLES, commit.unit.network), columns=["flow_id"]
        )
        for commit in warehouse.published_units("network")
        if commit.unit.network != network.name
    }
    pages = {
        f"{PLOTS}/{plot_file_name(flow_id)}"
        for of_network in rows.values()
        for flow_id in of_network["flow_id"].to_pylist()
    }
    scope = Scope(
        network.name,
        frozenset(set(KEY_COLUMNS) - {FAR_END_COLUMN}),
        frozenset(far_in),
        frozenset(pages),
    )
    return search_names(warehouse, users, scope)


def _content_lock(network: str) -> str:
    """Return the name of the lock that guards a network's captures."""
    return f"content-{network}"


def _require_secret(warehouse: Warehouse, network: str) -> None:
    """Make sure that the secret for the hashes of forgotten users exists.

    If a network without pseudonyms has no secret yet, one is made. If a network has pseudonyms,
    raises UserError unless they were made with this secret.
    """
    commit = warehouse.published(Unit("network", network))
    made_with = (commit.facts.get("users") or PLAIN) if commit else PLAIN
    if made_with == PLAIN:
        make_secret()
    elif made_with.split()[0] != secret_check(secret()):
        raise UserError(
            f"{warehouse.root}: the users of {network} in it are pseudonyms of another key: "
            "use that key to remove a user"
        )


def _leases_of_users(
    warehouse: Warehouse, network: str, users: list[str]
) -> list[tuple[str, int, int]]:
    """Return the addresses that these users had, as (address, begin, end), from RADIUS messages.

    Begin and end are in µs since 1970.
    """
    from spark_jobs.users.subscribers import lease_spans
    from spark_jobs.warehouse.files import read_rows

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


@dataclass
class _UserOccurrences:
    """The places where users' names occur.

    known: the names that were found
    networks: the networks with rows that may be about the users
    future_spans: spans of the rows about them that are dated later than now
    """

    known: set[str] = field(default_factory=set)
    networks: set[str] = field(default_factory=set)
    future_spans: list[RemovedSpan] = field(default_factory=list)


def _find_users(
    warehouse: Warehouse,
    owner: Network,
    name_scope: Mapping[str, Any],
    users: list[str],
    addresses: set[str],
    now_us: int,
) -> _UserOccurrences:
    """Search the published tables for a network's users, and for the addresses that they had.

    name_scope: `own_names`, whether the names mean the same users in all networks, and `far_in`,
        the networks in which no other user has these addresses (see exclusions.forgotten_unit)

    A name (address) that occurs only as a server's is not a user's name.
    """
    occurrences, wanted = _UserOccurrences(), {*users, *addresses}
    known_at_far_end = {user for user in users if may_be_user(owner, user, name_scope["own_names"])}
    for network in sorted({commit.unit.network for commit in warehouse.published_units("network")}):
        if network == owner.name or name_scope["own_names"]:
            columns: Collection[str] = KEY_COLUMNS
        else:
            columns = (FAR_END_COLUMN,) if network in name_scope["far_in"] else ()

        def mentions_user(rows: pa.Table, columns: Collection[str] = columns) -> bool:
            return any(
                wanted & texts for name, texts in keys_by_column(rows).items() if name in columns
            )

        for table in TABLES_WITH_USERS if columns else ():
            for path in warehouse.files(table, network):
                for rows in _rows_about(path, table, mentions_user):
                    occurrences.networks.add(network)
                    for name, texts in keys_by_column(rows).items():
                        if network != owner.name:
                            occurrences.known |= texts & known_at_far_end
                        elif name != FAR_END_COLUMN:
                            occurrences.known |= texts.intersection(users)
                    if table in CAPTURE_TABLES:
                        occurrences.future_spans += _future_spans(rows, columns, users, now_us)
    return occurrences


def _future_spans(
    rows: pa.Table, columns: Collection[str], users: list[str], now_us: int
) -> Iterator[RemovedSpan]:
    """Yield, for each user, the span of the rows about the user that are dated later than now."""
    import pyarrow as pa
    import pyarrow.compute as pc

    (times, *_) = (
        rows[name].cast(pa.int64()) for name in TIME_COLUMNS if name in rows.column_names
    )
    in_future = pc.greater_equal(times, now_us)
    for user in users if pc.any(in_future).as_py() else ():
        for name in set(columns) & set(rows.column_names):
            of_user = pc.and_(
                in_future, pc.fill_null(pc.equal(rows[name].cast(pa.string()), user), False)
            )
            first, last = pc.min_max(times.filter(of_user)).values()
            if first.is_valid:
                yield RemovedSpan.from_key(user, first.as_py(), last.as_py() + 1)


def _reject_unknown_users(
    warehouse: Warehouse, network: str, users: list[str], occurrences: _UserOccurrences
) -> None:
    """Raise UserError if a name is not known.

    A name is known if it is in the tables, was forgotten before, or is in a superseded file that
    still exists.
    """
    from spark_jobs.warehouse.search import search_names

    earlier = previously_forgotten(warehouse, network, users)
    unknown = [
        user
        for user in users
        if not {user, ipv6_alias(user)} & occurrences.known and user not in earlier
    ]
    if unknown:
        found = search_names(warehouse, unknown).found
        found_names = {
            place.name
            for place in found
            if place.column in set(KEY_COLUMNS) - {FAR_END_COLUMN}
            and network_of(place.path) == network
        }
        unknown = [user for user in unknown if user not in found_names]
    if unknown:
        raise UserError(
            *(
                f"{warehouse.root}: no user named {user} is known in {network}; nothing was "
                "removed: giscope pseudonym prints a user's name"
                for user in unknown
            )
        )


def _remove_users(warehouse: Warehouse, removal: Removal) -> int:
    """Remove the rows about removed users from captures and days; return the number of rows."""
    count = 0
    for network in removal.networks:
        removed = exclusions_from_facts(network, removal.users)
        with warehouse.locked(_content_lock(network)):
            for name in sorted(_captures_about(warehouse, network, removed)):
                count += _rewrite_capture(warehouse, Unit("capture", network, name), removed)
        for kind in ("leases", "day"):
            for commit in warehouse.published_units(kind, network):
                count += _rewrite_day(warehouse, commit, removed)
    return count


def _captures_about(warehouse: Warehouse, network: str, removed: RemovalFilter) -> set[str]:
    """Return the captures and logs with rows about users who are to be removed."""
    import pyarrow as pa

    found: set[str] = set()
    for table in CAPTURE_TABLES:
        for path in warehouse.files(table, network):
            for rows in _rows_about(path, table, removed.may_match):
                mask = pa.array(removed.matches(rows))
                about_users = rows if _only_in_dictionary(removed, rows) else rows.filter(mask)
                found.update(about_users["capture"].unique().to_pylist())
    return found


def _rows_about(
    path: Path, table: Table, may_be_about: Callable[[pa.Table], bool]
) -> Iterator[pa.Table]:
    """Yield, for each row group that may be about a user, its columns with users and times.

    may_be_about: decides by the KEY_COLUMNS of a row group. A missing file gives no rows.
    """
    with _damage_as_user_error(path), _open_with_dictionaries(path, table) as file:
        for number in range(file.num_row_groups):
            if may_be_about(file.read_row_group(number, columns=[*KEY_COLUMNS])):
                yield file.read_row_group(number, columns=["capture", *KEY_COLUMNS, *TIME_COLUMNS])


def _row_groups(path: Path, table: Table) -> Iterator[pa.Table]:
    """Yield a file's rows, row group by row group; a missing file gives none."""
    with _damage_as_user_error(path), _open_with_dictionaries(path, table) as file:
        for number in range(file.num_row_groups):
            yield file.read_row_group(number)


def _only_in_dictionary(removed: RemovalFilter, rows: pa.Table) -> bool:
    """Return whether a column's dictionary has a removed user's name although no row uses it."""
    import pyarrow as pa

    if not removed.may_match(rows):
        return False
    names = [name for name in KEY_COLUMNS if name in rows.column_names]
    return not removed.may_match(pa.table({n: rows[n].cast(pa.string()) for n in names}))


@contextmanager
def _damage_as_user_error(path: Path) -> Iterator[None]:
    """Raise UserError if a file cannot be read; ignore a missing file."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        pass
    except (OSError, pa.ArrowException) as error:
        raise UserError(
            f"{path}: cannot be read ({str(error).splitlines()[0]}): remove it, and read its "
            "capture again with giscope run"
        ) from error


def _open_with_dictionaries(path: Path, table: Table) -> Any:
    from spark_jobs.warehouse.files import open_parquet

    texts = [name for name in ("capture", *KEY_COLUMNS) if name in table.arrow.names]
    return open_parquet(path, read_dictionary=texts)


def _rewrite_capture(warehouse: Warehouse, unit: Unit, removed: RemovalFilter) -> int:
    """Publish a capture without the rows about removed users; return the number of these rows."""
    from spark_jobs.capture.packet_sample import packet_keys

    commit = warehouse.unmerge(unit)
    removed_counts = {"rows": 0, "packets": 0, "values": 0}
    removed_keys: list[np.ndarray] = []

    def without_users(table: Table, rows: pa.Table) -> pa.Table:
        mask = removed.matches(rows)
        if mask.any():
            removed_rows = rows.filter(mask)
            removed_counts["rows"] += len(removed_rows)
            removed_counts["values"] += sum(
                len(removed_rows) - column.null_count for column in removed_rows.columns
            )
            if table is PACKETS:
                removed_counts["packets"] += len(removed_rows)
                removed_keys.append(packet_keys(removed_rows))
        return drop_rows(table, rows, mask)

    with warehouse.staging() as staging:
        replaced_files = {
            target
            for target in commit.stored_in
            if TABLES[table_name(target)] in CAPTURE_TABLES
            and _stage_without_users(staging, warehouse.root, target, without_users, removed)
        }
        facts = commit.facts | {name: commit.facts[name] - n for name, n in removed_counts.items()}
        facts["content"] = key_content_hash(facts["content"], secret())
        logged = CaptureFacts.model_validate(facts)
        replaced_files |= restage_log_row(warehouse, staging, commit, logged, removed_keys)
        kept_files = set(commit.stored_in) - replaced_files
        warehouse.publish(unit, staging.files, facts, kept_files)
    return removed_counts["rows"]


def _stage_without_users(
    staging: Staging,
    root: Path,
    target: str,
    without_users: Callable[[Table, pa.Table], pa.Table],
    removed: RemovalFilter,
) -> bool:
    """Stage a copy of a file without the rows about removed users, row group by row group.

    Returns whether the copy replaces the file. If no row is removed, nothing is staged.
    """
    from spark_jobs.warehouse.files import with_columns

    place = Partition.of(target)
    kept_parts, changed = [], False
    for rows in _row_groups(root / target, place.table):
        rows = with_columns(rows, place.table, place.table.arrow.names)
        rows = rows.cast(place.table.arrow_dictionary)
        kept_rows = without_users(place.table, rows)
        if len(kept_rows) == len(rows) and _only_in_dictionary(removed, rows):
            kept_rows, changed = rows.cast(place.table.arrow).cast(rows.schema), True
        changed |= len(kept_rows) < len(rows)
        kept_parts.append(kept_rows)
    if changed and any(map(len, kept_parts)):
        with staging.writer(*place, stem(target)) as writer:
            for rows in filter(len, kept_parts):
                writer.write_table(rows, row_group_size=len(rows))
    return changed


def _rewrite_day(warehouse: Warehouse, commit: PublishedUnit, removed: RemovalFilter) -> int:
    """Publish a day's tables without the rows about removed users and their connections.

    Returns the number of these rows.
    """
    import numpy as np
    import pyarrow as pa

    flow_ids: set[int] = set()
    count = 0

    def without_users(table: Table, rows: pa.Table) -> pa.Table:
        nonlocal count
        mask = removed.matches(rows)
        if table is not FLOWS and "flow_id" in rows.schema.names and flow_ids:
            mask |= np.isin(rows["flow_id"].to_numpy(), list(flow_ids))
        if table is FLOWS and mask.any():
            flow_ids.update(rows["flow_id"].filter(pa.array(mask)).to_pylist())
        count += int(mask.sum())
        return drop_rows(table, rows, mask)

    flows_first = sorted(commit.stored_in, key=lambda target: table_name(target) != FLOWS.name)
    with warehouse.staging() as staging:
        replaced_files = {
            target
            for target in flows_first
            if _stage_without_users(staging, warehouse.root, target, without_users, removed)
        }
        if replaced_files:
            kept_files = set(commit.stored_in) - replaced_files
            warehouse.publish(commit.unit, staging.files, commit.facts, kept_files)
    return count


def purge(
    warehouse: Warehouse, networks: Iterable[str], before: date, tables: Iterable[Table] = ()
) -> set[Table]:
    """Remove the days of networks before a given day; return the tables that had any.

    tables: the tables; if empty, all tables that are partitioned by date
    """
    chosen = list(tables) or [
        table for name in RETENTION_GROUPS for table in RETENTION_GROUPS[name]
    ]
    return _publish_purge(
        warehouse, [(name, table, before) for name in networks for table in chosen]
    )


def retain(warehouse: Warehouse, networks: Iterable[Network], today: date) -> set[Table]:
    """Remove the days that are older than the retention in the networks file.

    Returns the tables that had any.
    """
    return _publish_purge(
        warehouse,
        [
            (network.name, table, today - timedelta(days))
            for network in networks
            for table, days in network.retention.days.items()
        ],
    )


def purge_networks(
    warehouse: Warehouse, network: str | None, before: date, tables: Iterable[Table]
) -> set[Table]:
    """Purge one network, or all; return the tables that had old days (see purge).

    Raises UserError if the warehouse has no such network.
    """
    names = [commit.unit.network for commit in warehouse.published_units("network", network)]
    if not names:
        raise UserError(f"{warehouse.root}: no network {network or ''} in it".replace("  ", " "))
    return purge(warehouse, names, before, tables)


def _publish_purge(warehouse: Warehouse, limits: list[tuple[str, Table, date]]) -> set[Table]:
    """Record a purge as the removal in progress, and finish it.

    Returns the tables that had old days.

    limits: (network, table, first day that is kept)
    """
    finish_pending(warehouse)
    first_kept = _first_kept_days(limits)
    old = {
        TABLES[table_name(target)]
        for name, first_days in first_kept.items()
        for commit in _units_with_days(warehouse, name)
        for target in commit.contents
        if _is_old(target, first_days)
    }
    removal = Removal(
        purged=[[name, table.name, day.isoformat()] for name, table, day in limits],
        # A capture's row of ingest_log has a sample of its packets.
        tables=sorted(table.name for table in {*old, INGEST_LOG}) if old else [],
    )
    warehouse.publish(PENDING, [], asdict(removal))
    return finish_pending(warehouse).tables


def _purge_days(warehouse: Warehouse, removal: Removal) -> set[Table]:
    """Remove the old days of a removal; return the tables that had any."""
    limits = [(name, TABLES[table], date.fromisoformat(day)) for name, table, day in removal.purged]
    for name, table, day in limits:
        warehouse.record_purge(name, table, day)
    purged_tables: set[Table] = set()
    for name, first_kept in _first_kept_days(limits).items():
        with warehouse.locked(_content_lock(name)):
            for commit in _units_with_days(warehouse, name):
                purged_tables |= _purge_unit(warehouse, commit, first_kept)
    return purged_tables


_FirstKeptDays = dict[Table, date]
"""By table, the first day that is kept."""


def _first_kept_days(limits: Iterable[tuple[str, Table, date]]) -> dict[str, _FirstKeptDays]:
    first_kept: dict[str, _FirstKeptDays] = {}
    for name, table, day in limits:
        first_kept.setdefault(name, {})[table] = day
    return first_kept


def _units_with_days(warehouse: Warehouse, network: str) -> list[PublishedUnit]:
    """Return the units that have tables with days."""
    return [c for kind in ("capture", *DAY_KINDS) for c in warehouse.published_units(kind, network)]


def _purge_unit(
    warehouse: Warehouse, commit: PublishedUnit, first_kept: _FirstKeptDays
) -> set[Table]:
    """Publish a unit without the files of old days; return the tables that had them."""
    if not any(_is_old(target, first_kept) for target in commit.contents):
        return set()
    commit = warehouse.unmerge(commit.unit)
    old = {target for target in commit.stored_in if _is_old(target, first_kept)}
    purged_tables = {TABLES[table_name(target)] for target in old}
    with warehouse.staging() as staging:
        facts = commit.facts
        if commit.unit.kind == "capture":
            remaining = [
                target
                for target in set(commit.stored_in) - old
                if TABLES[table_name(target)] in CAPTURE_TABLES
            ]
            if not remaining:
                facts = facts | {"packets": 0, "rows": 0, "values": 0, "dates": []}
            elif PACKETS in first_kept:
                days = [d for d in facts["dates"] if date.fromisoformat(d) >= first_kept[PACKETS]]
                facts = facts | {"dates": days}
            if not remaining and INGEST_LOG not in purged_tables:
                old |= restage_log_row(warehouse, staging, commit, CaptureFacts.of(commit))
        kept_files = set(commit.stored_in) - old
        warehouse.publish(commit.unit, staging.files, facts, kept_files)
    return purged_tables


def _is_old(target: str, first_kept: _FirstKeptDays) -> bool:

    place = Partition.of(target)
    return place.date is not None and place.date < first_kept.get(place.table, date.min)


def tables_named(names: Iterable[str]) -> list[Table]:
    """Return the tables with these names.

    Each name is that of a group in RETENTION_GROUPS or of a table.

    Raises UserError if a name is neither a group's nor a table's.
    """
    found: list[Table] = []
    for name in names:
        if name not in TABLES and name not in RETENTION_GROUPS:
            raise UserError(f"no table {name!r} with days: giscope schema lists the tables")
        found += RETENTION_GROUPS.get(name) or [TABLES[name]]
    return found
