"""Captures and days, published without the rows about some users."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from schemas import FLOWS, PACKETS, Table
from spark_jobs.capture.ingest_log import restage_log_row
from spark_jobs.capture.removal_filter import RemovalFilter, drop_rows
from spark_jobs.capture.users import key_content_hash, secret
from spark_jobs.removal.exclusions import CAPTURE_TABLES, exclusions_of
from spark_jobs.removal.find_users import captures_about, row_groups
from spark_jobs.warehouse.facts import CaptureFacts, RemovalFacts
from spark_jobs.warehouse.row_groups import write_row_group
from spark_jobs.warehouse.staging import Staging
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.targets import Partition, stem
from spark_jobs.warehouse.units import PublishedUnit, Unit

RowFilter = Callable[[Table, pa.Table], pa.Table]
"""Returns a table's rows without those to remove."""


def remove_users(warehouse: Warehouse, removal: RemovalFacts) -> int:
    """Remove the rows about removed users from captures and days; return the number of rows."""
    count = 0
    for network in removal.networks:
        removed = exclusions_of(network, removal.users)
        with warehouse.captures_locked(network):
            for name in captures_about(warehouse, network, removed):
                count += rewrite_capture(warehouse, Unit("capture", network, name), removed)
        for kind in ("leases", "day"):
            for published in warehouse.published_units(kind, network):
                count += rewrite_day(warehouse, published, removed)
    return count


def rewrite_capture(warehouse: Warehouse, unit: Unit, removed: RemovalFilter) -> int:
    """Publish a capture without the rows about removed users; return the number of these rows."""
    from spark_jobs.capture.packet_sample import packet_keys

    published = warehouse.unmerge(unit)
    facts = CaptureFacts.of(published)
    facts = facts.replace(content=key_content_hash(facts.content, secret()))
    keys: list[np.ndarray] = []
    count = 0

    def without_users(table: Table, rows: pa.Table) -> pa.Table:
        nonlocal facts, count
        mask = removed.matches(rows)
        if mask.any():
            gone = rows.filter(pa.array(mask))
            values = sum(len(gone) - column.null_count for column in gone.columns)
            count += len(gone)
            left = None if facts.values is None else facts.values - values
            facts = facts.replace(rows=facts.rows - len(gone), values=left)
            if table is PACKETS:
                facts = facts.replace(packets=facts.packets - len(gone))
                keys.append(packet_keys(gone))
        return drop_rows(table, rows, mask)

    with warehouse.staging() as staging:
        tables = [target for target in published.files if _table(target) in CAPTURE_TABLES]
        replaced = _stage_without(warehouse, staging, tables, without_users, removed)
        replaced |= restage_log_row(warehouse, staging, published, facts, keys)
        warehouse.publish(unit, staging.files, facts, published.stored_in.keys() - replaced)
    return count


def rewrite_day(warehouse: Warehouse, published: PublishedUnit, removed: RemovalFilter) -> int:
    """Publish a day's tables without the rows about removed users and their connections.

    Returns the number of these rows.
    """
    flow_ids: set[int] = set()
    count = 0

    def without_users(table: Table, rows: pa.Table) -> pa.Table:
        nonlocal count
        mask = removed.matches(rows)
        if table is not FLOWS and "flow_id" in rows.schema.names and flow_ids:
            mask |= np.isin(rows["flow_id"].to_numpy(), list(flow_ids))
        if table is FLOWS:
            flow_ids.update(rows["flow_id"].filter(pa.array(mask)).to_pylist())
        count += int(mask.sum())
        return drop_rows(table, rows, mask)

    flows_first = sorted(published.files, key=lambda target: _table(target) is not FLOWS)
    with warehouse.staging() as staging:
        replaced = _stage_without(warehouse, staging, flows_first, without_users, removed)
        if replaced:
            unchanged = published.stored_in.keys() - replaced
            warehouse.publish(published.unit, staging.files, published.facts, unchanged)
    return count


def _stage_without(
    warehouse: Warehouse,
    staging: Staging,
    targets: Iterable[str],
    without_users: RowFilter,
    removed: RemovalFilter,
) -> set[str]:
    """Stage copies of files without the rows about removed users; return the replaced files.

    A file that names no such user is not replaced. A copy without rows is not written.
    """
    replaced = set()
    for target in targets:
        place, table = Partition.stored(target), Partition.of(target).table
        kept_parts, changed = [], False
        for rows in row_groups(warehouse.root / target, place.table):
            kept = without_users(table, rows)
            changed |= len(kept) < len(rows)
            if len(kept) == len(rows) and removed.only_in_dictionary(rows):
                kept, changed = rows.cast(place.table.arrow).cast(rows.schema), True
            kept_parts += [kept] if len(kept) else []
        if changed:
            replaced.add(target)
        if changed and kept_parts:
            with staging.writer(*place, stem(target)) as writer:
                for rows in kept_parts:
                    write_row_group(writer, rows)
    return replaced


def _table(target: str) -> Table:
    return Partition.of(target).table
