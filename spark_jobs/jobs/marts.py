"""The marts job: it makes the small aggregate tables behind the report and the dashboards.

One SQL file makes each mart. DuckDB or Spark runs the files for the days that changed.
"""

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
"""Tables that a day's marts are made from, besides the network's facts."""
GROUP_COLUMNS = [table.group_columns for table in MARTS]
MAX_BATCH_DAYS, MAX_BATCH_BYTES = 31, 256 << 20
"""Maximum number of days whose marts are made at once."""

Day = tuple[str, date]


def update_marts(
    warehouse: Warehouse,
    skip: Callable[[Day], bool] = lambda day: False,
    network: str | None = None,
) -> list[Day]:
    """Bring every day's marts up to date with its flows, and return the days that changed.

    skip: returns whether a day's marts must stay as they are
    network: the only network whose days are considered

    Days are made in batches, and several batches at a time. A day's marts stay as they are if an
    input of them was purged.
    """
    days = warehouse.days("day", network)
    purged_before = {
        name: warehouse.purged_before(name, *INPUTS) for name in {name for name, _ in days}
    }
    stale = [
        day
        for day in days
        if day[1] >= purged_before[day[0]] and not _is_current(warehouse, day) and not skip(day)
    ]
    if stale:
        from spark_jobs.warehouse.sql import max_engines

        workers = max_engines(warehouse)
        batches = list(_batches(warehouse, stale, workers))
        workers = min(workers, len(batches))
        publishing = Lock()

        def make_batch(batch: list[Day]) -> None:
            inputs, results = _make(warehouse, batch, workers)
            with warehouse.staging() as staging:
                changes = [_stage(staging, day, inputs[day], results) for day in batch]
                with publishing:
                    warehouse.publish_all(
                        [_without_purged(warehouse, change) for change in changes]
                    )

        with ThreadPoolExecutor(workers) as pool:
            for _ in (map if workers == 1 else pool.map)(make_batch, batches):
                pass
    warehouse.update_views()
    return stale


def _batches(warehouse: Warehouse, days: list[Day], workers: int = 1) -> Iterator[list[Day]]:
    """Yield batches of days, which one worker makes at once.

    A batch fits into the worker's share of MAX_BATCH_BYTES, and the workers end at about the same
    time.
    """
    batch: list[Day] = []
    batch_bytes = 0
    rounds = -(-len(days) // MAX_BATCH_DAYS) or 1
    max_days, max_bytes = -(-len(days) // (rounds * workers)), MAX_BATCH_BYTES // workers
    for day in days:
        size = sum(path.stat().st_size for path in warehouse.files(FLOWS, *day))
        if batch and (batch_bytes + size > max_bytes or len(batch) == max_days):
            yield batch
            batch, batch_bytes = [], 0
        batch.append(day)
        batch_bytes += size
    if batch:
        yield batch


def marts_unit(day: Day) -> Unit:
    """Return the unit that a day's marts are published as."""
    return Unit.of_day("marts", *day)


def _inputs_hash(warehouse: Warehouse, day: Day) -> str:
    """Return a hash of what a day's marts depend on.

    These are its INPUTS, the network's facts, the SQL files, and the groups.
    """
    files = [warehouse.content_hashes(table, *day) for table in INPUTS]
    facts = warehouse.content_hashes(NETWORKS, day[0])
    return fingerprint(files, facts, version("spark_jobs/marts"), GROUPS, GROUP_COLUMNS)


def _is_current(warehouse: Warehouse, day: Day) -> bool:
    return warehouse.is_current(marts_unit(day), _inputs_hash(warehouse, day))


def _make(
    warehouse: Warehouse, days: list[Day], workers: int
) -> tuple[dict[Day, str], dict[str, dict[Day, pa.Table]]]:
    """Return each day's _inputs_hash, and the marts' rows by name and day."""
    inputs = {day: _inputs_hash(warehouse, day) for day in days}
    from spark_jobs.warehouse.sql import engine

    with engine(warehouse, workers) as sql:
        return inputs, {name: split_by_day(rows) for name, rows in mart_rows(sql, warehouse, days)}


def _stage(
    staging: Staging, day: Day, inputs: str, results: dict[str, dict[Day, pa.Table]]
) -> Change:
    """Stage a day's marts. inputs, results: see _make."""
    staged_before = len(staging.files)
    for table in (*MARTS, SUPPRESSED_GROUPS):
        if day in results[table.name]:
            staging.write(table, *day, "mart", results[table.name][day])
    return Change(marts_unit(day), staging.files[staged_before:], {"inputs": inputs})


def _without_purged(warehouse: Warehouse, change: Change) -> Change:
    """Return a day's change without the marts that were purged, perhaps while they were made."""
    network, day = change.unit.network, change.unit.day
    purged = [
        table
        for table in (*MARTS, SUPPRESSED_GROUPS)
        if day < warehouse.purged_before(network, table)
    ]
    dropped = [file for file in change.files if any(file.belongs_to(table) for table in purged)]
    warehouse.remove_staged(dropped)
    return change._replace(files=[file for file in change.files if file not in dropped])


def split_by_day(rows: pa.Table) -> dict[Day, pa.Table]:
    """Return the rows of each (network, date). The rows must be sorted by these."""
    counted = rows.group_by(["network", "date"], use_threads=False).aggregate([([], "count_all")])
    rows_of_day, begin = {}, 0
    for row in counted.to_pylist():
        rows_of_day[row["network"], row["date"]] = rows.slice(begin, row["count_all"])
        begin += row["count_all"]
    return rows_of_day


def mart_rows(sql: Engine, warehouse: Warehouse, days: list[Day]) -> Iterator[tuple[str, pa.Table]]:
    """Yield (name, sorted rows) of each mart of these days, then of SUPPRESSED_GROUPS."""
    for table in INPUTS:
        sql.read(table, [path for day in days for path in warehouse.files(table, *day)])
    names = sorted({network for network, _ in days})
    sql.read(NETWORKS, [path for name in names for path in warehouse.files(NETWORKS, name)])
    for name in SHARED_VIEWS:
        if name in SMALL_VIEWS:
            sql.table(name, sql_text(name))
        else:
            sql.view(name, sql_text(name), name in CACHED_VIEWS)
    min_users = _min_users(sql)
    suppressed_tables = []
    for table in MARTS:
        rows = sql.rows(mart_query(table), table.arrow_with_partitions)
        kept, suppressed = without_small_groups(table, rows, min_users)
        suppressed_tables.append(suppressed)
        yield table.name, kept
    order = [(name, "ascending") for name in ("network", "date", "mart")]
    yield SUPPRESSED_GROUPS.name, pa.concat_tables(suppressed_tables).sort_by(order)


def _min_users(sql: Engine) -> dict[str, int]:
    """Return min_users of each network that has it."""
    rows = sql.rows("select * from networks", NETWORKS.arrow_with_partitions).to_pylist()
    return {row["network"]: row["min_users"] for row in rows if row["min_users"]}
