"""Superseded files: how they are removed, and which earlier states can be shown."""

from __future__ import annotations

import datetime
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from spark_jobs.base.errors import UserError
from spark_jobs.base.places import remove_all
from spark_jobs.warehouse.catalog import UnitCatalog
from spark_jobs.warehouse.facts import HistoryHorizon
from spark_jobs.warehouse.files import microseconds, to_datetime
from spark_jobs.warehouse.iceberg_tables import IcebergTables
from spark_jobs.warehouse.targets import table_name
from spark_jobs.warehouse.units import Unit

END_OF_TIME_NS = (1 << 63) - 1
"""A time later than any recorded time, also if a clock was ahead."""
HORIZON = Unit("made", "all", "what is forgotten")
"""The unit whose facts are the HistoryHorizon."""


class History:
    """The superseded files of a warehouse."""

    def __init__(self, root: Path, catalog: UnitCatalog, iceberg_tables: IcebergTables):
        self._root, self._catalog, self._iceberg_tables = root, catalog, iceberg_tables

    def checked_ns(self, as_of: datetime.datetime, tables: Iterable[str]) -> int:
        """Return a time in ns since 1970. Raises UserError if tables are not kept as of then."""
        horizon = self._horizon()
        until_ns = max(horizon.until_ns, *(horizon.erased_ns.get(table, 0) for table in tables), 0)
        ns = min(microseconds(as_of) * 1000, END_OF_TIME_NS)
        if ns < until_ns:
            until = to_datetime(until_ns // 1000)
            raise UserError(
                f"{self._root}: the state of {as_of:%Y-%m-%d %H:%M:%S} UTC is not kept: files "
                f"superseded before {until:%Y-%m-%d %H:%M:%S} UTC are removed"
            )
        return ns

    def removable(self, before_ns: int, tables: Collection[str] = ()) -> dict[str, int]:
        """Return files that were superseded before a time, each with the time (ns since 1970).

        Nobody may publish meanwhile. tables: only files of these tables, if any are given.
        """
        return {
            path: ns
            for path, ns in self._catalog.removable_files(before_ns).items()
            if not tables or table_name(path) in tables
        }

    def remove(
        self, removable: Mapping[str, int], before_ns: int, tables: Collection[str] = ()
    ) -> None:
        """Remove files that removable() returned; first drop the Iceberg snapshots of them."""
        if not removable:
            return
        last: dict[str, int] = {}
        for path, since_ns in removable.items():
            last[table_name(path)] = max(since_ns, last.get(table_name(path), 0))
        self._iceberg_tables.drop_snapshots(last, before_ns)
        self._record_horizon(max(min(before_ns, time.time_ns()), *last.values()), tables)
        remove_all(self._root / path for path in removable)
        self._catalog.forget_files(removable)

    def _horizon(self) -> HistoryHorizon:
        published = self._catalog.published(HORIZON)
        return HistoryHorizon.of(published) if published else HistoryHorizon()

    def _record_horizon(self, until_ns: int, tables: Collection[str]) -> None:
        """Record that some or all tables can no longer be shown as of earlier times."""
        horizon = self._horizon()
        horizon = horizon.replace(
            until_ns=horizon.until_ns if tables else until_ns,
            erased_ns=horizon.erased_ns | dict.fromkeys(tables, until_ns),
        )
        self._catalog.record(HORIZON, horizon)
