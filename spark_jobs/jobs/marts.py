"""Flows and the tables beside them to marts: one SQL file a table or figure, run by Spark for the
days that changed."""

from collections.abc import Callable, Iterator
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from schemas import CHANNEL_RATES, FLOWS, LINKS, MARTS, NETWORKS, ROUND_TRIPS, STALLS
from spark_jobs.engine.spark import spark_session
from spark_jobs.estimators.by_user import GROUPS
from spark_jobs.marts import SHARED, SQL
from spark_jobs.warehouse import Unit, Warehouse, fingerprint
from spark_jobs.warehouse.spark_sql import read_table

INPUTS = (FLOWS, CHANNEL_RATES, STALLS, ROUND_TRIPS, LINKS)
"""What the marts of a day are made of, beside the network's facts."""
DAYS_AT_ONCE = 31
USER_GROUP = f"""
    create or replace temporary function user_group(key string) returns int
    return cast(pmod(xxhash64(key), {GROUPS}) as int)
"""
"""SQL, for the marts'."""

Day = tuple[str, date]


def marts(
    warehouse: Warehouse,
    leave: Callable[[Day], bool] = lambda day: False,
    network: str | None = None,
) -> list[Day]:
    """Bring every day's marts up to date with its flows, but for those to `leave` as they are;
    returns the days that changed. network: only its days."""
    stale = [
        day
        for day in warehouse.days("day", network)
        if not _is_current(warehouse, day) and not leave(day)
    ]
    for start in range(0, len(stale), DAYS_AT_ONCE):
        _make(warehouse, stale[start : start + DAYS_AT_ONCE])
    warehouse.update_views()
    return stale


def _unit(day: Day) -> Unit:
    return Unit.of_day("marts", *day)


def _inputs(warehouse: Warehouse, day: Day) -> str:
    """What a day's marts depend on, as a hash: its INPUTS, the network's facts, the SQL."""
    files = [path.name for table in INPUTS for path in warehouse.files(table, *day)]
    facts = [path.name for path in warehouse.files(NETWORKS, day[0])]
    sql = [path.read_text() for path in sorted(SQL.glob("*.sql"))]
    return fingerprint(files, facts, [*sql, USER_GROUP])


def _is_current(warehouse: Warehouse, day: Day) -> bool:
    commit = warehouse.commit(_unit(day))
    return commit is not None and commit.facts["inputs"] == _inputs(warehouse, day)


def _make(warehouse: Warehouse, days: list[Day]) -> None:
    read = {day: _inputs(warehouse, day) for day in days}
    results = dict(_results(warehouse, days))
    for day in days:
        network, when = day
        with warehouse.staging() as staging:
            for table in MARTS:
                rows = results[table.name]
                mine = rows.filter((pc.field("network") == network) & (pc.field("date") == when))
                if len(mine):
                    staging.write(table, network, when, "mart", mine)
            warehouse.publish(_unit(day), staging.files, {"inputs": read[day]})


def _results(warehouse: Warehouse, days: list[Day]) -> Iterator[tuple[str, pa.Table]]:
    files = {
        table: [path for day in days for path in warehouse.files(table, *day)] for table in INPUTS
    }
    if not files[FLOWS]:
        yield from ((t.name, t.arrow_with_partitions.empty_table()) for t in MARTS)
        return
    spark = spark_session()
    for table, paths in files.items():
        read_table(spark, warehouse, table, paths).createOrReplaceTempView(table.name)
    networks = [
        path for name in {day[0] for day in days} for path in warehouse.files(NETWORKS, name)
    ]
    read_table(spark, warehouse, NETWORKS, networks).createOrReplaceTempView("networks")
    spark.sql(USER_GROUP)
    shared = []
    for name in SHARED:
        view = _query(spark, name).cache()
        view.createOrReplaceTempView(name)
        shared.append(view)
    for table in MARTS:
        rows = _query(spark, table.name).toArrow()
        schema = table.arrow_with_partitions
        yield table.name, rows.select(schema.names).cast(schema)
    for view in shared:
        view.unpersist()


def _query(spark: SparkSession, name: str) -> DataFrame:
    return spark.sql((SQL / f"{name}.sql").read_text())
