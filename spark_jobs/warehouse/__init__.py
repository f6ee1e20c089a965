"""Where tables lie, how they change and how they are read. Nothing else knows a path."""

from spark_jobs.warehouse.commits import Commit, Unit
from spark_jobs.warehouse.files import Written
from spark_jobs.warehouse.staging import Staging
from spark_jobs.warehouse.store import KEEP, VIEWS, Change, Warehouse, fingerprint

__all__ = [
    "KEEP",
    "VIEWS",
    "Change",
    "Commit",
    "Staging",
    "Unit",
    "Warehouse",
    "Written",
    "fingerprint",
]
