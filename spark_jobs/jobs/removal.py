"""Users and days removed from every table, and the files that had them.

A removal begins with one transaction of the journal, which has what is to be left out from now on
(of a user a hash), and that a removal is in flight (PENDING). Each step after it may be repeated.
The last one says that it has ended; until then the next `forget`, `purge` or `run` goes on with it.
What was made of packets that are there no more stays as it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from schemas import (
    EXAMPLES,
    FLOWS,
    INGEST_LOG,
    KEPT_TOGETHER,
    LEASES,
    PACKETS,
    TABLES,
    Table,
)
from spark_jobs.capture.removed import (
    FAR,
    KEYS,
    TIMES,
    Removed,
    Span,
    as_facts,
    from_facts,
    texts_of,
    without,
)
from spark_jobs.capture.users import (
    PLAIN,
    also_called,
    as_keyed,
    check_of,
    make_secret,
    secret,
)
from spark_jobs.errors import UserError
from spark_jobs.jobs.forgotten import (
    OF_CAPTURES,
    alone_in,
    forgotten_unit,
    has_names_of_its_own,
    may_be_user,
    removed_from,
)
from spark_jobs.jobs.ingest import stage_again
from spark_jobs.jobs.refresh import refresh, refresh_pages
from spark_jobs.networks import Network
from spark_jobs.report import PLOTS, plot_file_name
from spark_jobs.warehouse import Change, Commit, Staging, Unit, Warehouse

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from spark_jobs.warehouse.search import Search

DAILY = ("day", "leases", "marts", "quality")
"""Kinds of units of a day."""
WITH_USERS = [table for table in TABLES.values() if set(KEYS) & set(table.arrow.names)]
PENDING = Unit("removal", "all")
"""Its facts are those of the Removal that is in flight, or empty."""
FOREVER_US = 1 << 62


@dataclass(frozen=True)
class Removal:
    """What is to be removed, as the journal has it: JSON.

    users: by network, the facts of its forgotten_unit, for all that is there now whatever its time.
    networks: from which rows of these users are removed, each as the networks file has it, or None.
    purged: (network, table, before): a table's days before one. tables: of which what was replaced
    goes, too.
    """

    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    networks: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    purged: list[list[str]] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)


class Done(NamedTuple):
    """What was removed: rows about users, and the tables that had old days."""

    rows: int
    tables: set[Table]


def is_pending(warehouse: Warehouse) -> bool:
    """Whether a removal was broken off."""
    commit = warehouse.commit(PENDING)
    return commit is not None and bool(commit.facts)


def finish(warehouse: Warehouse) -> Done:
    """End the removal that is in flight, if there is one: remove rows and days, make what is left
    of them, and remove the files that had them."""
    if not is_pending(warehouse):
        return Done(0, set())
    commit = warehouse.commit(PENDING)
    assert commit is not None
    removal = Removal(**commit.facts)
    with warehouse.one_update():
        rows = _remove_users(warehouse, removal)
        tables = _purge_days(warehouse, removal)
        settings = [Network.model_validate(one) for one in removal.networks.values() if one]
        refresh(warehouse, settings, removal.networks)
        refresh_pages(warehouse)
    if removal.tables:
        warehouse.erase(TABLES[name] for name in removal.tables)
    warehouse.publish(PENDING, [], {})
    return Done(rows, tables)


def forget(
    warehouse: Warehouse, network: Network, users: list[str], others: Iterable[Network] = ()
) -> int:
    """Remove the rows about users of a network, in every network; returns how many. others: the
    networks that there are.

    What is captured later stays. What is there goes whatever its times say, and is left out where
    it is read again: all before now, and where a clock was ahead, the times that were found.
    Raises UserError where nobody of a name is known.
    """
    finish(warehouse)
    _need_secret(warehouse, network.name)
    known = {one.name: one for one in (*others, network)}
    elsewhere = {
        "own_names": has_names_of_its_own(warehouse, network),
        "far_in": alone_in(network, known.values()),
    }
    leased = _leased(warehouse, network.name, users)
    names = [*users, *map(also_called, users)]
    every = {commit.unit.network for commit in warehouse.commits("network")}
    now_us = time.time_ns() // 1000
    with ExitStack() as stack:
        for name in sorted(every):
            stack.enter_context(warehouse.locked(_content(name)))
        seen = _seen(warehouse, network, elsewhere, names, {a for a, *_ in leased}, now_us)
        _refuse_unknown(warehouse, network.name, users, seen)
        commit = warehouse.commit(forgotten_unit(network.name))
        before = from_facts(commit.facts, network.name) if commit else ()
        spans = [Span.of(*lease) for lease in leased]
        left_out = {*before, *spans, *seen.later, *(Span.of(name, 0, now_us) for name in names)}
        whole = [*spans, *(Span.of(name, 0, FOREVER_US) for name in names)]
        removal = Removal(
            users={network.name: as_facts(whole) | elsewhere},
            networks={
                name: known[name].model_dump(mode="json") if name in known else None
                for name in sorted(seen.networks)
            },
            tables=list(TABLES),
        )
        facts = as_facts(left_out) | elsewhere
        warehouse.publish_all(
            [
                Change(forgotten_unit(network.name), [], facts),
                Change(PENDING, [], asdict(removal)),
            ]
        )
    return finish(warehouse).rows


def are_forgotten(warehouse: Warehouse, network: str, users: Iterable[str]) -> list[str]:
    """Those of a network's users who were forgotten before."""
    commit = warehouse.commit(forgotten_unit(network))
    hashed = {span.who for span in from_facts(commit.facts, network)} if commit else set()
    return [user for user in users if Span.of(user, 0, 0).who in hashed]


def prove(
    warehouse: Warehouse, network: Network, users: list[str], others: Iterable[Network] = ()
) -> Search:
    """Look for the names of a network's users everywhere in the warehouse."""
    from spark_jobs.warehouse.files import read_rows
    from spark_jobs.warehouse.search import Scope, look_for

    if has_names_of_its_own(warehouse, network):
        return look_for(warehouse, users)
    far_in = {*alone_in(network, others), network.name}
    rows = {
        commit.unit.network: read_rows(
            EXAMPLES, warehouse.files(EXAMPLES, commit.unit.network), columns=["flow_id"]
        )
        for commit in warehouse.commits("network")
        if commit.unit.network != network.name
    }
    pages = {
        f"{PLOTS}/{plot_file_name(flow_id)}"
        for of_network in rows.values()
        for flow_id in of_network["flow_id"].to_pylist()
    }
    scope = Scope(network.name, frozenset(set(KEYS) - {FAR}), frozenset(far_in), frozenset(pages))
    return look_for(warehouse, users, scope)


def _content(network: str) -> str:
    """The lock of what a network's captures gave."""
    return f"content-{network}"


def _need_secret(warehouse: Warehouse, network: str) -> None:
    """Who was removed is remembered by a keyed hash. Raises UserError where the secret is not that
    of the network's pseudonyms; a network without them may have none yet, and it is made."""
    commit = warehouse.commit(Unit("network", network))
    made_with = (commit.facts.get("users") or PLAIN) if commit else PLAIN
    if made_with == PLAIN:
        make_secret()
    elif made_with.split()[0] != check_of(secret()):
        raise UserError(
            f"{warehouse.root}: the users of {network} there are pseudonyms of another key: "
            "removing one needs that key"
        )


def _leased(warehouse: Warehouse, network: str, users: list[str]) -> list[tuple[str, int, int]]:
    """(address, from, until): when users whom RADIUS names had which address."""
    from spark_jobs.warehouse.files import read_rows
    from spark_jobs.warehouse.subscribers import spans_of

    paths = [path for path in warehouse.files(LEASES, network) if path.exists()]
    leases, begin, end = spans_of(read_rows(LEASES, paths))
    found = zip(
        leases["address"].to_pylist(),
        leases["subscriber"].to_pylist(),
        begin.tolist(),
        end.tolist(),
        strict=True,
    )
    return [
        (called, *span)
        for address, user, *span in found
        if user in users
        for called in (address, also_called(address))
    ]


@dataclass
class _Seen:
    """Where users' names stand: which of them are known, in which networks are rows that may be
    about them, and when those are that are later than now."""

    known: set[str] = field(default_factory=set)
    networks: set[str] = field(default_factory=set)
    later: list[Span] = field(default_factory=list)


def _seen(
    warehouse: Warehouse,
    of: Network,
    elsewhere: Mapping[str, Any],
    users: list[str],
    addresses: set[str],
    now_us: int,
) -> _Seen:
    """Look for users of a network, and for the addresses that they had, in what is published;
    elsewhere: see forgotten_unit. A name that is a server's alone is no user's."""
    seen, wanted = _Seen(), {*users, *addresses}
    known_by_far = {user for user in users if may_be_user(of, user, elsewhere["own_names"])}
    for network in sorted({commit.unit.network for commit in warehouse.commits("network")}):
        if network == of.name or elsewhere["own_names"]:
            columns: Collection[str] = KEYS
        else:
            columns = (FAR,) if network in elsewhere["far_in"] else ()

        def has_one(rows: pa.Table, columns: Collection[str] = columns) -> bool:
            return any(wanted & texts for name, texts in texts_of(rows).items() if name in columns)

        for table in WITH_USERS if columns else ():
            for path in warehouse.files(table, network):
                for rows in _rows_about(path, table, has_one):
                    seen.networks.add(network)
                    for name, texts in texts_of(rows).items():
                        if network != of.name:
                            seen.known |= texts & known_by_far
                        elif name != FAR:
                            seen.known |= texts.intersection(users)
                    if table in OF_CAPTURES:
                        seen.later += _later(rows, columns, users, now_us)
    return seen


def _later(
    rows: pa.Table, columns: Collection[str], users: list[str], now_us: int
) -> Iterator[Span]:
    """For each user, the times later than now of the rows about them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    (time_of, *_) = (rows[name].cast(pa.int64()) for name in TIMES if name in rows.column_names)
    late = pc.greater_equal(time_of, now_us)
    for user in users if pc.any(late).as_py() else ():
        for name in set(columns) & set(rows.column_names):
            mine = pc.and_(late, pc.fill_null(pc.equal(rows[name].cast(pa.string()), user), False))
            first, last = pc.min_max(time_of.filter(mine)).values()
            if first.is_valid:
                yield Span.of(user, first.as_py(), last.as_py() + 1)


def _refuse_unknown(warehouse: Warehouse, network: str, users: list[str], seen: _Seen) -> None:
    """Raise UserError where nobody of a name is known: neither there, nor forgotten before, nor in
    what was replaced and is still kept."""
    from spark_jobs.warehouse.search import look_for

    before = are_forgotten(warehouse, network, users)
    unknown = [
        user for user in users if not {user, also_called(user)} & seen.known and user not in before
    ]
    if unknown:
        found = look_for(warehouse, unknown).found
        mine = {
            place.name
            for place in found
            if place.column in set(KEYS) - {FAR} and f"/network={network}/" in place.path
        }
        unknown = [user for user in unknown if user not in mine]
    if unknown:
        raise UserError(
            *(
                f"{warehouse.root}: nobody of the name {user} is known in {network}; nothing was "
                "removed: giscope pseudonym prints a user's name"
                for user in unknown
            )
        )


def _remove_users(warehouse: Warehouse, removal: Removal) -> int:
    """Publish every capture and day without the rows about users; returns how many these are."""
    count = 0
    for network in removal.networks:
        removed = removed_from(network, removal.users)
        with warehouse.locked(_content(network)):
            for name in sorted(_captures_about(warehouse, network, removed)):
                count += _rewrite_capture(warehouse, Unit("capture", network, name), removed)
        for kind in ("leases", "day"):
            for commit in warehouse.commits(kind, network):
                count += _rewrite_day(warehouse, commit, removed)
    return count


def _captures_about(warehouse: Warehouse, network: str, removed: Removed) -> set[str]:
    """The captures and logs that have rows about users who are to be removed."""
    import pyarrow as pa

    found: set[str] = set()
    for table in OF_CAPTURES:
        for path in warehouse.files(table, network):
            for rows in _rows_about(path, table, removed.may_be_about):
                those = pa.array(removed.about(rows))
                mine = rows if _lingers(removed, rows) else rows.filter(those)
                found.update(mine["capture"].unique().to_pylist())
    return found


def _rows_about(path: Path, table: Table, may_be: Callable[[pa.Table], bool]) -> Iterator[pa.Table]:
    """What says whom rows are about, and when, of the row groups whose KEYS may be about someone;
    of a file that is missing, none."""
    with _told_if_damaged(path), _open(path, table) as file:
        for number in range(file.num_row_groups):
            if may_be(file.read_row_group(number, columns=[*KEYS])):
                yield file.read_row_group(number, columns=["capture", *KEYS, *TIMES])


def _row_groups(path: Path, table: Table) -> Iterator[pa.Table]:
    """The rows of a file, row group by row group; of one that is missing, none."""
    with _told_if_damaged(path), _open(path, table) as file:
        for number in range(file.num_row_groups):
            yield file.read_row_group(number)


def _lingers(removed: Removed, rows: pa.Table) -> bool:
    """Whether a dictionary has the name of a user who is to be removed, and no row has."""
    import pyarrow as pa

    if not removed.may_be_about(rows):
        return False
    names = [name for name in KEYS if name in rows.column_names]
    return not removed.may_be_about(pa.table({n: rows[n].cast(pa.string()) for n in names}))


@contextmanager
def _told_if_damaged(path: Path) -> Iterator[None]:
    """Raises UserError where a file cannot be read; in one that is missing there is nothing."""
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


def _open(path: Path, table: Table) -> Any:
    from spark_jobs.warehouse.files import opened

    texts = [name for name in ("capture", *KEYS) if name in table.arrow.names]
    return opened(path, read_dictionary=texts)


def _rewrite_capture(warehouse: Warehouse, unit: Unit, removed: Removed) -> int:
    """Publish a capture without the rows of users who were removed; returns how many these are."""
    from spark_jobs.capture.sketch import packet_keys

    commit = warehouse.unmerged(unit)
    gone = {"rows": 0, "packets": 0, "values": 0}
    keys: list[np.ndarray] = []

    def keep(table: Table, rows: pa.Table) -> pa.Table:
        those = removed.about(rows)
        if those.any():
            out = rows.filter(those)
            gone["rows"] += len(out)
            gone["values"] += sum(len(out) - column.null_count for column in out.columns)
            if table is PACKETS:
                gone["packets"] += len(out)
                keys.append(packet_keys(out))
        return without(table, rows, those)

    with warehouse.staging() as staging:
        replaced = {
            target
            for target in commit.stored
            if _table_of(target) in OF_CAPTURES
            and _rewrite(staging, warehouse.root, target, keep, removed)
        }
        facts = commit.facts | {name: commit.facts[name] - n for name, n in gone.items()}
        facts["content"] = as_keyed(facts["content"], secret())
        replaced |= stage_again(warehouse, staging, commit, facts, keys)
        stay = set(commit.stored) - replaced
        warehouse.publish(unit, staging.files, facts, stay)
    return gone["rows"]


def _rewrite(
    staging: Staging,
    root: Path,
    target: str,
    keep: Callable[[Table, pa.Table], pa.Table],
    removed: Removed,
) -> bool:
    """Stage what is to be kept of a file's rows, row group by row group; False where the file may
    stay as it is."""
    from spark_jobs.warehouse.compaction import Place
    from spark_jobs.warehouse.files import with_columns

    place = Place.of(target)
    parts, changed = [], False
    for rows in _row_groups(root / target, place.table):
        rows = with_columns(rows, place.table, place.table.arrow.names)
        rows = rows.cast(place.table.arrow_dictionary)
        kept = keep(place.table, rows)
        if len(kept) == len(rows) and _lingers(removed, rows):
            kept, changed = rows.cast(place.table.arrow).cast(rows.schema), True
        changed |= len(kept) < len(rows)
        parts.append(kept)
    if changed and any(map(len, parts)):
        with staging.writer(*place, _stem_of(target)) as writer:
            for rows in filter(len, parts):
                writer.write_table(rows, row_group_size=len(rows))
    return changed


def _rewrite_day(warehouse: Warehouse, commit: Commit, removed: Removed) -> int:
    """Publish a day's tables without the rows of users who were removed, and of their
    connections."""
    import numpy as np
    import pyarrow as pa

    flow_ids: set[int] = set()
    count = 0

    def keep(table: Table, rows: pa.Table) -> pa.Table:
        nonlocal count
        those = removed.about(rows)
        if table is not FLOWS and "flow_id" in rows.schema.names and flow_ids:
            those |= np.isin(rows["flow_id"].to_numpy(), list(flow_ids))
        if table is FLOWS and those.any():
            flow_ids.update(rows["flow_id"].filter(pa.array(those)).to_pylist())
        count += int(those.sum())
        return without(table, rows, those)

    in_order = sorted(commit.stored, key=lambda target: _table_of(target) is not FLOWS)
    with warehouse.staging() as staging:
        replaced = {
            target
            for target in in_order
            if _rewrite(staging, warehouse.root, target, keep, removed)
        }
        if replaced:
            stay = set(commit.stored) - replaced
            warehouse.publish(commit.unit, staging.files, commit.facts, stay)
    return count


def purge(
    warehouse: Warehouse, networks: Iterable[str], before: date, tables: Iterable[Table] = ()
) -> set[Table]:
    """Remove networks' days before one, from some tables or all that have days; returns the tables
    that had any."""
    chosen = list(tables) or [table for name in KEPT_TOGETHER for table in KEPT_TOGETHER[name]]
    return _purge(warehouse, [(name, table, before) for name in networks for table in chosen])


def retain(warehouse: Warehouse, networks: Iterable[Network], today: date) -> set[Table]:
    """Remove what is older than the networks file lets it be; returns the tables that had any."""
    return _purge(
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
    """As purge, of one network or all. Raises UserError where there is none."""
    names = [commit.unit.network for commit in warehouse.commits("network", network)]
    if not names:
        raise UserError(f"{warehouse.root}: no network {network or ''} in it".replace("  ", " "))
    return purge(warehouse, names, before, tables)


def _purge(warehouse: Warehouse, wanted: list[tuple[str, Table, date]]) -> set[Table]:
    """Remove networks' tables' days before one; returns the tables that had any."""
    finish(warehouse)
    before = _by_network(wanted)
    old = {
        _table_of(target)
        for name, days in before.items()
        for commit in _units_of_days(warehouse, name)
        for target in commit.contents
        if _is_old(target, days)
    }
    removal = Removal(
        purged=[[name, table.name, day.isoformat()] for name, table, day in wanted],
        # The row of a capture in ingest_log had a sample of its packets.
        tables=sorted(table.name for table in {*old, INGEST_LOG}) if old else [],
    )
    warehouse.publish(PENDING, [], asdict(removal))
    return finish(warehouse).tables


def _purge_days(warehouse: Warehouse, removal: Removal) -> set[Table]:
    """Remove old days; returns the tables that had any."""
    wanted = [(name, TABLES[table], date.fromisoformat(day)) for name, table, day in removal.purged]
    for name, table, day in wanted:
        warehouse.purge(name, table, day)
    found: set[Table] = set()
    for name, before in _by_network(wanted).items():
        with warehouse.locked(_content(name)):
            for commit in _units_of_days(warehouse, name):
                found |= _purge_unit(warehouse, commit, before)
    return found


_Before = dict[Table, date]
"""By table, the first day that stays."""


def _by_network(wanted: Iterable[tuple[str, Table, date]]) -> dict[str, _Before]:
    found: dict[str, _Before] = {}
    for name, table, day in wanted:
        found.setdefault(name, {})[table] = day
    return found


def _units_of_days(warehouse: Warehouse, network: str) -> list[Commit]:
    """The units that have tables with days."""
    return [c for kind in ("capture", *DAILY) for c in warehouse.commits(kind, network)]


def _purge_unit(warehouse: Warehouse, commit: Commit, before: _Before) -> set[Table]:
    """Publish a unit without the files of tables' old days; returns these tables."""
    if not any(_is_old(target, before) for target in commit.contents):
        return set()
    commit = warehouse.unmerged(commit.unit)
    old = {target for target in commit.stored if _is_old(target, before)}
    gone = {_table_of(target) for target in old}
    with warehouse.staging() as staging:
        facts = commit.facts
        if commit.unit.kind == "capture":
            left = [
                target for target in set(commit.stored) - old if _table_of(target) in OF_CAPTURES
            ]
            if not left:
                facts = facts | {"packets": 0, "rows": 0, "values": 0, "dates": []}
            elif PACKETS in before:
                days = [d for d in facts["dates"] if date.fromisoformat(d) >= before[PACKETS]]
                facts = facts | {"dates": days}
            if not left and INGEST_LOG not in gone:
                old |= stage_again(warehouse, staging, commit, commit.facts)
        stay = set(commit.stored) - old
        warehouse.publish(commit.unit, staging.files, facts, stay)
    return gone


def _is_old(target: str, before: _Before) -> bool:
    from spark_jobs.warehouse.compaction import Place

    place = Place.of(target)
    return place.date is not None and place.date < before.get(place.table, date.min)


def _table_of(target: str) -> Table:
    return TABLES[target.partition("/")[0]]


def _stem_of(target: str) -> str:
    """What a file was named by its writer (see Staging.path)."""
    return target.rpartition("/")[2].rsplit("-", 2)[0]


def known_tables(names: Iterable[str]) -> list[Table]:
    """The tables of these names, of KEPT_TOGETHER or of one; a UserError where there is none."""
    found: list[Table] = []
    for name in names:
        if name not in TABLES and name not in KEPT_TOGETHER:
            raise UserError(f"no table {name!r} that has days: giscope schema lists them")
        found += KEPT_TOGETHER.get(name) or [TABLES[name]]
    return found
