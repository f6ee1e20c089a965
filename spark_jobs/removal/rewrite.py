"""Captures and days, published without the rows about some users."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from schemas import FLOWS, Table
from spark_jobs.capture.removal_filter import REMOVED_REASON, RemovalFilter, drop_rows
from spark_jobs.capture.users import PLAIN
from spark_jobs.ingest.exclusions import CAPTURE_TABLES, exclusions_of, key_scheme
from spark_jobs.ingest.publish import count_rows, log_files, stage_log_row
from spark_jobs.removal.find_users import captures_about, row_groups
from spark_jobs.warehouse.facts import CaptureFacts, RemovalFacts
from spark_jobs.warehouse.row_groups import write_row_group
from spark_jobs.warehouse.staging import Staging
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.targets import Partition, stem
from spark_jobs.warehouse.units import PublishedUnit, Unit

RowFilter = Callable[[Partition, pa.Table], pa.Table]
"""Returns rows of a partition without those to remove."""


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
    """Publish a capture without removed users' rows, and count it again; return their number."""
    published = warehouse.unmerge(unit)
    before = CaptureFacts.of(published)
    facts = before.without_rows(None).replace(
        inputs=before.inputs,
        # Nobody may find a removed user by writing the capture again.
        content="" if key_scheme(warehouse, unit.network) == PLAIN else before.content,
        dates=[] if warehouse.is_intact(published) else before.dates,
        first_us=None,
        last_us=None,
    )
    count = 0

    def without_users(place: Partition, rows: pa.Table) -> pa.Table:
        nonlocal facts, count
        mask = removed.matches(rows)
        count += int(mask.sum())
        kept = drop_rows(place.table, rows, mask)
        if len(kept) and place.date:
            facts = count_rows(facts, place.table, place.date, kept)
        return kept

    with warehouse.staging() as staging:
        tables = [target for target in published.files if _table(target) in CAPTURE_TABLES]
        replaced = _stage_without(warehouse, staging, tables, without_users, removed)
        if count:
            skipped = {REMOVED_REASON: before.skipped.get(REMOVED_REASON, 0) + count}
            facts = facts.replace(skipped=dict(sorted((before.skipped | skipped).items())))
        if log := log_files(published):
            stage_log_row(staging, unit, facts)
        replaced |= log
        warehouse.publish(unit, staging.files, facts, published.stored_in.keys() - replaced)
    return count


def rewrite_day(warehouse: Warehouse, published: PublishedUnit, removed: RemovalFilter) -> int:
    """Publish a day's tables without the rows about removed users and their connections.

    Returns the number of these rows.
    """
    flow_ids: set[int] = set()
    count = 0

    def without_users(place: Partition, rows: pa.Table) -> pa.Table:
        nonlocal count
        table, mask = place.table, removed.matches(rows)
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
        place = Partition.of(target)
        kept_parts, changed = [], False
        for rows in row_groups(warehouse.root / target, place.table):
            kept = without_users(place, rows)
            changed |= len(kept) < len(rows)
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
