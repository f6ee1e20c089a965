"""Where tables lie, how they change and how they are read. Nothing else knows a path."""

from spark_jobs.warehouse.store import VIEWS, Commit, Staging, Unit, Warehouse, fingerprint

__all__ = ["VIEWS", "Commit", "Staging", "Unit", "Warehouse", "fingerprint"]
