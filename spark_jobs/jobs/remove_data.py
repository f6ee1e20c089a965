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

from collections.abc import Iterable
from contextlib import ExitStack
from datetime import date, timedelta
from typing import NamedTuple

from schemas import Table
from spark_jobs.base.errors import UserError
from spark_jobs.figures.tables import RETENTION_GROUPS, TABLES
from spark_jobs.ingest.exclusions import forgotten_unit, require_secret
from spark_jobs.jobs.run import refresh, refresh_pages
from spark_jobs.removal.find_users import find_users
from spark_jobs.removal.old_days import Limit, purge_days, tables_with_old_days
from spark_jobs.removal.rewrite import remove_users
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse.facts import RemovalFacts
from spark_jobs.warehouse.store import Change, Warehouse
from spark_jobs.warehouse.units import Unit

PENDING = Unit("removal", "all")
"""The unit whose facts are the removal in progress. If it has no facts, none is in progress."""


class RemovalResult(NamedTuple):
    """The result of a removal: the number of rows about users, and the tables that had old days."""

    rows: int
    tables: set[Table]


def is_pending(warehouse: Warehouse) -> bool:
    """Return whether a removal was interrupted."""
    published = warehouse.published(PENDING)
    return published is not None and bool(published.facts)


def finish_pending(warehouse: Warehouse) -> RemovalResult:
    """Finish the removal in progress, if there is one.

    It removes the rows and days, makes tables again from the remaining rows, and removes the files
    that had the removed rows.
    """
    published = warehouse.published(PENDING)
    if published is None or not published.facts:
        return RemovalResult(0, set())
    removal = RemovalFacts.of(published)
    with warehouse.update_views_once():
        rows = remove_users(warehouse, removal)
        tables = purge_days(warehouse, removal.purged)
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
    require_secret(warehouse, network.name)
    known = {other.name: other for other in (*others, network)}
    with ExitStack() as stack:
        for published in warehouse.published_units("network"):
            stack.enter_context(warehouse.captures_locked(published.unit.network))
        found = find_users(warehouse, network, users, known.values())
        removal = RemovalFacts(
            users={network.name: found.removed},
            networks={
                name: known[name].model_dump(mode="json") if name in known else None
                for name in sorted(found.networks)
            },
            tables=list(TABLES),
        )
        warehouse.publish_all(
            [
                Change(forgotten_unit(network.name), [], found.excluded),
                Change(PENDING, [], removal),
            ]
        )
    return finish_pending(warehouse).rows


def retain(warehouse: Warehouse, networks: Iterable[Network], today: date) -> set[Table]:
    """Remove the days that are older than the retention in the networks file.

    Returns the tables that had any.
    """
    limits = [
        (network.name, table.name, today - timedelta(days))
        for network in networks
        for table, days in network.retention.days.items()
    ]
    return _purge(warehouse, limits)


def purge_networks(
    warehouse: Warehouse, network: str | None, before: date, tables: Iterable[Table]
) -> set[Table]:
    """Remove the days of a network, or of all, before a day; return the tables that had any.

    tables: the tables; if empty, all tables that are partitioned by date

    Raises UserError if the warehouse has no such network.
    """
    names = [published.unit.network for published in warehouse.published_units("network", network)]
    if not names:
        raise UserError(f"{warehouse.root}: no network {network or ''} in it".replace("  ", " "))
    chosen = list(tables) or [table for group in RETENTION_GROUPS.values() for table in group]
    return _purge(warehouse, [(name, table.name, before) for name in names for table in chosen])


def _purge(warehouse: Warehouse, limits: list[Limit]) -> set[Table]:
    """Record a purge as the removal in progress, and finish it.

    Returns the tables that had old days.
    """
    finish_pending(warehouse)
    old = tables_with_old_days(warehouse, limits)
    tables = sorted(table.name for table in old)
    warehouse.publish(PENDING, [], RemovalFacts(purged=limits, tables=tables))
    return finish_pending(warehouse).tables


def remove_capture(warehouse: Warehouse, network: str, capture: str) -> None:
    """Remove the rows of one capture or log; the next run makes its days again.

    Its superseded files stay for the grace time, as those of every change.

    Raises UserError if the network has no such capture.
    """
    finish_pending(warehouse)
    unit = Unit("capture", network, capture)
    with warehouse.captures_locked(network):
        published = warehouse.published(unit)
        if not published or not published.files:
            raise UserError(f"{warehouse.root}: no capture {capture} of {network} in it")
        warehouse.publish(unit, [], {})
    warehouse.update_views()


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
