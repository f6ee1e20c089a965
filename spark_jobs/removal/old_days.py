"""Old days: units published without the files of purged days."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any

from schemas import PACKETS, Table
from spark_jobs.figures.tables import TABLES
from spark_jobs.ingest.exclusions import CAPTURE_TABLES
from spark_jobs.warehouse.facts import CaptureFacts, Facts
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.targets import Partition
from spark_jobs.warehouse.units import PublishedUnit

KINDS_WITH_DAYS = ("capture", "day", "hours", "leases", "marts", "quality")
"""Kinds of units that have tables with days."""

Limit = tuple[str, str, date]
"""(network, table, first day that is kept)"""


def tables_with_old_days(warehouse: Warehouse, limits: Iterable[Limit]) -> set[Table]:
    """Return the tables that have days before the limits."""
    return {
        table
        for network, first_kept in _by_network(limits).items()
        for published in _units_with_days(warehouse, network)
        for table in _old_files(published.contents, first_kept).values()
    }


def purge_days(warehouse: Warehouse, limits: list[Limit]) -> set[Table]:
    """Record a purge, and remove the days before its limits; return the tables that had any."""
    purged: set[Table] = set()
    for network, table, day in limits:
        warehouse.record_purge(network, TABLES[table], day)
    for network, first_kept in _by_network(limits).items():
        with warehouse.captures_locked(network):
            for published in _units_with_days(warehouse, network):
                if _old_files(published.contents, first_kept):
                    purged |= _purge_unit(warehouse, published, first_kept)
    return purged


def _by_network(limits: Iterable[Limit]) -> dict[str, dict[Table, date]]:
    """Return, for each network, the first day that is kept of each table."""
    found: dict[str, dict[Table, date]] = {}
    for network, table, day in limits:
        found.setdefault(network, {})[TABLES[table]] = day
    return found


def _units_with_days(warehouse: Warehouse, network: str) -> list[PublishedUnit]:
    return [c for kind in KINDS_WITH_DAYS for c in warehouse.published_units(kind, network)]


def _old_files(targets: Iterable[str], first_kept: dict[Table, date]) -> dict[str, Table]:
    """Return those of some files that have old days, with their tables."""
    places = {target: Partition.of(target) for target in targets}
    return {
        target: place.table
        for target, place in places.items()
        if place.date is not None and place.date < first_kept.get(place.table, date.min)
    }


def _purge_unit(
    warehouse: Warehouse, published: PublishedUnit, first_kept: dict[Table, date]
) -> set[Table]:
    """Publish a unit without the files of old days; return the tables that had them."""
    published = warehouse.unmerge(published.unit)
    old = _old_files(published.stored_in, first_kept)
    facts: Facts | dict[str, Any] = published.facts
    remaining = published.stored_in.keys() - old.keys()
    if published.unit.kind == "capture":
        before = CaptureFacts.of(published)
        if any(Partition.of(target).table in CAPTURE_TABLES for target in remaining):
            first_day = first_kept.get(PACKETS, date.min)
            facts = before.replace(dates=[day for day in before.dates if day >= first_day])
        else:
            facts = before.replace(packets=0, ipv6_packets=0, rows=0, dates=[])
    warehouse.publish(published.unit, [], facts, remaining)
    return set(old.values())
