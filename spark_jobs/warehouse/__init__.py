"""The warehouse: where tables lie, how they change, and how they are read.

No other package knows a path of a table. The module `store` explains the terms.
"""

from spark_jobs.warehouse.files import Written
from spark_jobs.warehouse.staging import Staging
from spark_jobs.warehouse.store import GRACE_TIME, VIEWS, Change, Warehouse, fingerprint
from spark_jobs.warehouse.units import PublishedUnit, Unit

__all__ = [
    "GRACE_TIME",
    "VIEWS",
    "Change",
    "PublishedUnit",
    "Staging",
    "Unit",
    "Warehouse",
    "Written",
    "fingerprint",
]
