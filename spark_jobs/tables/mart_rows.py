"""The rows of the marts, which DuckDB makes from the files of other tables: one query a mart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa

from schemas import (
    CHANNEL_RATES,
    FLOWS,
    LINKS,
    NETWORKS,
    PAGES,
    PEAK_HOURS,
    QUALITY,
    QUIC_FLOWS,
    RETRANSMISSIONS,
    RTO_VALUES,
    RTT_SAMPLES,
    STALLS,
    Table,
)
from schemas.quality import FAILED
from spark_jobs.base.errors import WITHHELD, in_a_line, withhold
from spark_jobs.engine.memory import memory_error_message
from spark_jobs.figures.mart_sql import CACHED_VIEWS, SMALL_VIEWS, mart_query, view_statements
from spark_jobs.figures.suppressed_groups.suppression import without_small_groups
from spark_jobs.figures.tables import MARTS, SUPPRESSED_GROUPS
from spark_jobs.warehouse.staging import Staging
from spark_jobs.warehouse.views import files_query, register_object_store, sql_type

if TYPE_CHECKING:
    import duckdb

Day = tuple[str, date]
"""A network and a day."""
INPUTS = (
    FLOWS, QUIC_FLOWS, CHANNEL_RATES, STALLS, RTT_SAMPLES, LINKS, PAGES, RETRANSMISSIONS,
    RTO_VALUES, PEAK_HOURS,
)  # fmt: skip
"""Tables of a day that its marts are made from, besides the network's facts."""


def mart_rows(
    files: Mapping[str, list[Path]],
    staging: Staging,
    threads: int,
    memory_limit: str,
    on_failure: Callable[[Table, str], object],
) -> Iterator[tuple[Table, Day, pa.Table]]:
    """Yield (table, day, sorted rows) of each mart and day, and at last of SUPPRESSED_GROUPS.

    files: the files of INPUTS and NETWORKS by table name. staging, memory_limit: see _duckdb.
    on_failure(mart, reason) is called for a mart whose rows cannot be made. Errors of too little
    memory are raised.
    """
    with ExitStack() as stack:

        def connect() -> duckdb.DuckDBPyConnection:
            stack.close()
            connection = stack.enter_context(_duckdb(staging, threads, memory_limit))
            for table in (*INPUTS, NETWORKS):
                query = files_query(table, files[table.name])
                connection.execute(f"create temp view {table.name} as {query}")
            for statement in view_statements(stored={*SMALL_VIEWS, *CACHED_VIEWS}):
                connection.execute(statement)
            return connection

        connection = connect()
        thresholds = connection.sql("select network, min_users from networks where min_users > 0")
        min_users = dict(thresholds.fetchall())
        suppressed_tables = []
        for table in MARTS:
            try:
                rows = _sorted_rows(connection, mart_query(table), table.arrow_with_partitions)
                kept, suppressed = without_small_groups(table, rows, min_users)
            except Exception as error:
                if memory_error_message(error):
                    raise
                on_failure(table, in_a_line(error))
                connection = connect()  # after some errors, DuckDB refuses all further queries
                continue
            suppressed_tables.append(suppressed)
            for day, rows_of_day in _split_by_day(kept):
                yield table, day, rows_of_day
    if not suppressed_tables:
        return
    order = [(name, "ascending") for name in ("network", "date", "mart")]
    for day, rows_of_day in _split_by_day(pa.concat_tables(suppressed_tables).sort_by(order)):
        yield SUPPRESSED_GROUPS, day, rows_of_day


def failure_rows(day: Day, failures: Mapping[str, str]) -> pa.Table:
    """Return rows of QUALITY about a day's marts that could not be made, and print their reasons.

    failures: reasons by the mart's name; an empty name is that of all marts.
    """
    rows = []
    for mart, reason in failures.items():
        what = f"mart {mart}" if mart else "all marts"
        withhold(f"{what} of {day[0]} on {day[1]}", reason)
        finding = f"{WITHHELD}{what}: {reason}"
        rows.append({"measure": FAILED, "passed": True, "finding": finding})
    return pa.Table.from_pylist(rows, QUALITY.arrow)


@contextmanager
def _duckdb(
    staging: Staging, threads: int, memory_limit: str
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection in which the marts' SQL can run.

    Beyond memory_limit, DuckDB writes to the staging's folder, or if this machine lacks that, to
    the system's temporary folder.
    """
    import duckdb

    parent = staging.folder if staging.folder.exists() else None
    with TemporaryDirectory(dir=parent) as folder:
        settings: dict[str, str | bool | int | float | list[str]] = {
            "threads": threads,
            "memory_limit": memory_limit,
            "temp_directory": folder,
        }
        with duckdb.connect(config=settings) as connection:
            connection.execute("set timezone = 'UTC'; set enable_progress_bar = false")
            register_object_store(connection, staging.root)
            yield connection


def _sorted_rows(connection: duckdb.DuckDBPyConnection, query: str, schema: pa.Schema) -> pa.Table:
    """Return a query's rows with these columns, sorted by all of them."""
    columns = [f'cast("{f.name}" as {sql_type(f.type)}) as "{f.name}"' for f in schema]
    rows = connection.sql(f"select {', '.join(columns)} from ({query}) order by all")
    return rows.to_arrow_table().cast(schema)


def _split_by_day(rows: pa.Table) -> Iterator[tuple[Day, pa.Table]]:
    """Yield the rows of each (network, date). The rows must be sorted by these."""
    counted = rows.group_by(["network", "date"], use_threads=False).aggregate([([], "count_all")])
    begin = 0
    for row in counted.to_pylist():
        yield (row["network"], row["date"]), rows.slice(begin, row["count_all"])
        begin += row["count_all"]
