"""Airflow's environment, and the steps of its DAG."""

from conftest import ROOT

from schemas import Table
from spark_jobs.warehouse.store import Warehouse

AIRFLOW = ROOT / "infra/airflow/airflow"


STEPS = ["complete", "ingest", "flows", "check", "marts", "passed", "published", "deadline"]


def rows(warehouse: Warehouse, table: Table, where: str = "true") -> list[tuple]:
    """Return a table's rows; sums to nine digits, as Spark adds in any order."""
    found = query(warehouse, f"from {table.name} where {where}")
    return sorted(
        (tuple(f"{v:.9g}" if isinstance(v, float) else v for v in row) for row in found), key=repr
    )


def query(warehouse: Warehouse, sql: str) -> list[tuple]:
    return warehouse.connect().sql(sql).fetchall()
