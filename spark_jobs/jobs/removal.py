"""Users and days removed from every table, and the files that had them.

What is to be gone is remembered first (a user as a hash): a job that is broken off is ended by the
next one, and captures that are read again do not bring it back. Each capture and day is then
published without it. What was made of packets that are there no more stays as it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from schemas import (
    FLOWS,
    INGEST_LOG,
    KEPT_TOGETHER,
    LEASES,
    PACKETS,
    TABLES,
    Table,
)
from spark_jobs.capture.removed import KEYS, TIMES, Removed, Span, as_facts, without
from spark_jobs.capture.users import (
    PLAIN,
    also_called,
    as_keyed,
    check_of,
    make_secret,
    secret,
)
from spark_jobs.errors import UserError
from spark_jobs.jobs.ingest import OF_CAPTURES, forgotten_unit, removed_of, stage_again
from spark_jobs.networks import Network
from spark_jobs.warehouse import Commit, Staging, Unit, Warehouse

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

DAILY = ("day", "leases", "marts", "quality")
"""Kinds of units of a day."""


def forget(warehouse: Warehouse, network: Network, users: list[str]) -> int:
    """Remove the rows about users, of what was captured until now; returns how many. What was made
    of them is to be made again (see erase)."""
    now_us = time.time_ns() // 1000
    _need_secret(warehouse, network.name)
    users = [*users, *map(also_called, users)]
    spans = [Span.of(user, 0, now_us) for user in users]
    spans += _spans_of_addresses(warehouse, network.name, users)
    with warehouse.locked(f"content-{network.name}"):
        known = removed_of(warehouse, network.name)
        everyone = sorted({*known.spans, *spans})
        warehouse.publish(forgotten_unit(network.name), [], as_facts(everyone))
        removed = removed_of(warehouse, network.name)
        rows = sum(
            _rewrite_capture(warehouse, Unit("capture", network.name, name), removed)
            for name in sorted(_captures_about(warehouse, network.name, removed))
        )
    for commit in warehouse.commits("leases", network.name):
        rows += _rewrite_day(warehouse, commit, removed)
    for commit in warehouse.commits("day", network.name):
        rows += _rewrite_day(warehouse, commit, removed)
    return rows


def _need_secret(warehouse: Warehouse, network: str) -> None:
    """Who was removed is remembered by a keyed hash. Raises UserError where the secret is not that
    of the network's pseudonyms; a network without them may have none yet, and it is made."""
    commit = warehouse.commit(Unit("network", network))
    made_with = commit.facts.get("users", PLAIN) if commit else PLAIN
    if made_with == PLAIN:
        make_secret()
    elif made_with.split()[0] != check_of(secret()):
        raise UserError(
            f"{warehouse.root}: the users of {network} there are pseudonyms of another key: "
            "removing one needs that key"
        )


def _spans_of_addresses(warehouse: Warehouse, network: str, users: list[str]) -> list[Span]:
    """When users whom RADIUS names had which address."""
    from spark_jobs.warehouse.files import read_rows
    from spark_jobs.warehouse.subscribers import spans_of

    leases = read_rows(LEASES, warehouse.files(LEASES, network))
    leases, begin, end = spans_of(leases)
    found = zip(
        leases["address"].to_pylist(),
        leases["subscriber"].to_pylist(),
        begin.tolist(),
        end.tolist(),
        strict=True,
    )
    return [
        Span.of(called, *span)
        for address, user, *span in found
        if user in users
        for called in (address, also_called(address))
    ]


def _captures_about(warehouse: Warehouse, network: str, removed: Removed) -> set[str]:
    """The captures and logs that have rows about users who were removed."""
    import pyarrow as pa

    found: set[str] = set()
    for table in OF_CAPTURES:
        columns = [n for n in ("capture", *KEYS, *TIMES) if n in table.arrow.names]
        for path in warehouse.files(table, network):
            for rows in _row_groups(path, table, columns):
                those = removed.about(rows)
                if those.any():
                    names = rows["capture"].filter(pa.array(those)).unique()
                    found.update(names.to_pylist())
    return found


def _row_groups(path: Path, table: Table, columns: list[str] | None = None) -> Iterator[pa.Table]:
    from spark_jobs.warehouse.files import opened

    texts = [name for name in ("capture", *KEYS) if name in table.arrow.names]
    with opened(path, read_dictionary=texts) as file:
        for number in range(file.num_row_groups):
            yield file.read_row_group(number, columns=columns)


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
            if _table_of(target) in OF_CAPTURES and _rewrite(staging, warehouse.root, target, keep)
        }
        facts = commit.facts | {name: commit.facts[name] - n for name, n in gone.items()}
        facts["content"] = as_keyed(facts["content"], secret())
        replaced |= stage_again(warehouse, staging, commit, facts, keys)
        stay = set(commit.stored) - replaced
        warehouse.publish(unit, staging.files, facts, stay)
    return gone["rows"]


def _rewrite(
    staging: Staging, root: Path, target: str, keep: Callable[[Table, pa.Table], pa.Table]
) -> bool:
    """Stage what is to be kept of a file's rows, row group by row group; False where that is
    all."""
    from spark_jobs.warehouse.compaction import Place

    place = Place.of(target)
    before, parts = 0, []
    for rows in _row_groups(root / target, place.table):
        rows = rows.cast(place.table.arrow_dictionary)
        before += len(rows)
        parts.append(keep(place.table, rows))
    if sum(map(len, parts)) == before:
        return False
    if any(map(len, parts)):
        with staging.writer(*place, _stem_of(target)) as writer:
            for rows in filter(len, parts):
                writer.write_table(rows, row_group_size=len(rows))
    return True


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
            target for target in in_order if _rewrite(staging, warehouse.root, target, keep)
        }
        if replaced:
            stay = set(commit.stored) - replaced
            warehouse.publish(commit.unit, staging.files, commit.facts, stay)
    return count


def purge(
    warehouse: Warehouse, network: str, before: date, tables: Iterable[Table] = ()
) -> set[Table]:
    """Remove a network's days before one, from some tables or all that have days; returns the
    tables that had any."""
    chosen = list(tables) or [table for name in KEPT_TOGETHER for table in KEPT_TOGETHER[name]]
    for table in chosen:
        warehouse.purge(network, table, before)
    with warehouse.locked(f"content-{network}"):
        commits = [c for kind in ("capture", *DAILY) for c in warehouse.commits(kind, network)]
        return {
            table for commit in commits for table in _purge_unit(warehouse, commit, chosen, before)
        }


def retain(warehouse: Warehouse, networks: Iterable[Network], today: date) -> set[Table]:
    """Remove what is older than the networks file lets it be; returns the tables that had any."""
    found: set[Table] = set()
    for network in networks:
        of_days: dict[int, list[Table]] = {}
        for table, days in network.retention.days.items():
            of_days.setdefault(days, []).append(table)
        for days, tables in of_days.items():
            found |= purge(warehouse, network.name, today - timedelta(days), tables)
    return found


def purge_networks(
    warehouse: Warehouse, network: str | None, before: date, tables: Iterable[Table]
) -> set[Table]:
    """As purge, of one network or all. Raises UserError where there is none."""
    names = [commit.unit.network for commit in warehouse.commits("network", network)]
    if not names:
        raise UserError(f"{warehouse.root}: no network {network or ''} in it".replace("  ", " "))
    return {table for name in names for table in purge(warehouse, name, before, tables)}


def _purge_unit(
    warehouse: Warehouse, commit: Commit, tables: list[Table], before: date
) -> set[Table]:
    """Publish a unit without some tables' files of the days before one; returns these tables."""
    if not any(_is_old(target, tables, before) for target in commit.contents):
        return set()
    commit = warehouse.unmerged(commit.unit)
    old = {target for target in commit.stored if _is_old(target, tables, before)}
    gone = {_table_of(target) for target in old}
    with warehouse.staging() as staging:
        facts = commit.facts
        if commit.unit.kind == "capture":
            left = [
                target for target in set(commit.stored) - old if _table_of(target) in OF_CAPTURES
            ]
            if not left:
                facts = facts | {"packets": 0, "rows": 0, "values": 0, "dates": []}
            elif PACKETS in tables:
                days = [day for day in facts["dates"] if date.fromisoformat(day) >= before]
                facts = facts | {"dates": days}
            if not left and INGEST_LOG not in gone:
                old |= stage_again(warehouse, staging, commit, commit.facts)
        stay = set(commit.stored) - old
        warehouse.publish(commit.unit, staging.files, facts, stay)
    return gone


def _is_old(target: str, tables: list[Table], before: date) -> bool:
    from spark_jobs.warehouse.compaction import Place

    place = Place.of(target)
    return place.table in tables and place.date is not None and place.date < before


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
