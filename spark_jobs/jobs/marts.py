"""Flows and the tables beside them to marts: one SQL file a table or figure, run by DuckDB or Spark
for the days that changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow as pa

from schemas import (
    CHANNEL_RATES,
    FLOWS,
    LINKS,
    MARTS,
    NETWORKS,
    RETRANSMISSIONS,
    RTO_VALUES,
    RTT_SAMPLES,
    STALLS,
    SUPPRESSED_GROUPS,
)
from spark_jobs.estimators.by_user import GROUPS
from spark_jobs.marts import CACHED_VIEWS, SHARED_VIEWS, SMALL_VIEWS, mart_query, sql_text
from spark_jobs.marts.suppressed_groups import without_small_groups
from spark_jobs.sources import version
from spark_jobs.warehouse import Change, Staging, Unit, Warehouse, fingerprint

if TYPE_CHECKING:
    from spark_jobs.warehouse.sql import Engine

INPUTS = (FLOWS, CHANNEL_RATES, STALLS, RTT_SAMPLES, LINKS, RETRANSMISSIONS, RTO_VALUES)
"""What the marts of a day are made of, beside the network's facts."""
GROUP_COLUMNS = [table.group_columns for table in MARTS]
DAYS_AT_ONCE, BYTES_AT_ONCE = 31, 256 << 20
"""The latter of flows' files: about a million connections."""

Day = tuple[str, date]


def marts(
    warehouse: Warehouse,
    leave: Callable[[Day], bool] = lambda day: False,
    network: str | None = None,
) -> list[Day]:
    """Bring every day's marts up to date with its flows, but for those to `leave` as they are;
    returns the days that changed. network: only its days.

    A core makes those of some days while another makes those of others. Those of which something
    was removed that they were made of stay as they are.
    """
    days = warehouse.days("day", network)
    over = {name: warehouse.purged(name, *INPUTS) for name in {name for name, _ in days}}
    stale = [
        day
        for day in days
        if day[1] >= over[day[0]] and not _is_current(warehouse, day) and not leave(day)
    ]
    if stale:
        from spark_jobs.warehouse.sql import at_most

        makers = at_most(warehouse)
        batches = list(_batches(warehouse, stale, makers))
        makers = min(makers, len(batches))
        publishing = Lock()

        def make(batch: list[Day]) -> None:
            read, results = _made(warehouse, batch, makers)
            with warehouse.staging() as staging:
                changes = [_written(staging, day, read[day], results) for day in batch]
                with publishing:
                    warehouse.publish_all(
                        [_without_purged(warehouse, change) for change in changes]
                    )

        with ThreadPoolExecutor(makers) as pool:
            for _ in (map if makers == 1 else pool.map)(make, batches):
                pass
    warehouse.update_views()
    return stale


def _batches(warehouse: Warehouse, days: list[Day], makers: int = 1) -> Iterator[list[Day]]:
    """Days that one of so many makers makes at once: so many that they fit, and that the makers
    end together."""
    batch: list[Day] = []
    held = 0
    rounds = -(-len(days) // DAYS_AT_ONCE) or 1
    most, bytes_at_once = -(-len(days) // (rounds * makers)), BYTES_AT_ONCE // makers
    for day in days:
        size = sum(path.stat().st_size for path in warehouse.files(FLOWS, *day))
        if batch and (held + size > bytes_at_once or len(batch) == most):
            yield batch
            batch, held = [], 0
        batch.append(day)
        held += size
    if batch:
        yield batch


def unit_of(day: Day) -> Unit:
    """What a day's marts are published as."""
    return Unit.of_day("marts", *day)


def _inputs(warehouse: Warehouse, day: Day) -> str:
    """What a day's marts depend on, as a hash: its INPUTS, the network's facts, SQL and cells."""
    files = [warehouse.contents(table, *day) for table in INPUTS]
    facts = warehouse.contents(NETWORKS, day[0])
    return fingerprint(files, facts, version("spark_jobs/marts"), GROUPS, GROUP_COLUMNS)


def _is_current(warehouse: Warehouse, day: Day) -> bool:
    return warehouse.is_current(unit_of(day), _inputs(warehouse, day))


def _made(
    warehouse: Warehouse, days: list[Day], makers: int
) -> tuple[dict[Day, str], dict[str, dict[Day, pa.Table]]]:
    """What each day's marts depend on (see _inputs), and their rows by name and day."""
    read = {day: _inputs(warehouse, day) for day in days}
    from spark_jobs.warehouse.sql import engine

    with engine(warehouse, makers) as sql:
        return read, {name: by_day(rows) for name, rows in results_of(sql, warehouse, days)}


def _written(
    staging: Staging, day: Day, read: str, results: dict[str, dict[Day, pa.Table]]
) -> Change:
    """A day's marts, written; read, results: see _made."""
    before = len(staging.files)
    for table in (*MARTS, SUPPRESSED_GROUPS):
        if day in results[table.name]:
            staging.write(table, *day, "mart", results[table.name][day])
    return Change(unit_of(day), staging.files[before:], {"inputs": read})


def _without_purged(warehouse: Warehouse, change: Change) -> Change:
    """A day's marts without those that were removed, perhaps while they were made."""
    network, day = change.unit.network, change.unit.day
    over = [
        table for table in (*MARTS, SUPPRESSED_GROUPS) if day < warehouse.purged(network, table)
    ]
    gone = [file for file in change.files if any(file.is_of(table) for table in over)]
    warehouse.discard(gone)
    return change._replace(files=[file for file in change.files if file not in gone])


def by_day(rows: pa.Table) -> dict[Day, pa.Table]:
    """The rows of each (network, date), by which they are sorted."""
    counted = rows.group_by(["network", "date"], use_threads=False).aggregate([([], "count_all")])
    found, begin = {}, 0
    for row in counted.to_pylist():
        found[row["network"], row["date"]] = rows.slice(begin, row["count_all"])
        begin += row["count_all"]
    return found


def results_of(
    sql: Engine, warehouse: Warehouse, days: list[Day]
) -> Iterator[tuple[str, pa.Table]]:
    """(name, rows) of each mart of these days, the rows sorted; then of SUPPRESSED_GROUPS."""
    for table in INPUTS:
        sql.read(table, [path for day in days for path in warehouse.files(table, *day)])
    names = sorted({network for network, _ in days})
    sql.read(NETWORKS, [path for name in names for path in warehouse.files(NETWORKS, name)])
    for name in SHARED_VIEWS:
        if name in SMALL_VIEWS:
            sql.table(name, sql_text(name))
        else:
            sql.view(name, sql_text(name), name in CACHED_VIEWS)
    least = _least_users(sql)
    counted = []
    for table in MARTS:
        rows = sql.rows(mart_query(table), table.arrow_with_partitions)
        kept, cells = without_small_groups(table, rows, least)
        counted.append(cells)
        yield table.name, kept
    order = [(name, "ascending") for name in ("network", "date", "mart")]
    yield SUPPRESSED_GROUPS.name, pa.concat_tables(counted).sort_by(order)


def _least_users(sql: Engine) -> dict[str, int]:
    """The min_users of each network that has one."""
    rows = sql.rows("select * from networks", NETWORKS.arrow_with_partitions).to_pylist()
    return {row["network"]: row["min_users"] for row in rows if row["min_users"]}
