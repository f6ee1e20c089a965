"""Selection of networks and days that a report covers."""

import datetime
from collections.abc import Iterable
from itertools import cycle
from pathlib import Path

from schemas import NETWORKS, QUALITY, Table
from spark_jobs.base.errors import UserError
from spark_jobs.figures.names import NETWORK_COLOURS
from spark_jobs.figures.selection import Selection, ShownNetwork
from spark_jobs.figures.tables import SHOWN, TABLES
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.views import create_views, files_query

UNRESTRICTED = (NETWORKS, QUALITY)
"""Tables that a selection reads whole: names of all networks, and checks of all days."""


def select(
    warehouse: Warehouse,
    names: list[str] | None,
    since: datetime.date | None,
    until: datetime.date | None,
    tables: Iterable[Table] = tuple(TABLES.values()),
) -> Selection:
    """Return a selection of some networks and days, by default all; open no file of any other.

    Raises UserError if a network is unknown or if there are no marts of the selection.
    """
    connection = warehouse.connect_to({table: warehouse.files(table) for table in UNRESTRICTED})
    known = connection.sql(
        "select distinct network, country, access from networks order by network"
    ).fetchall()
    unknown = set(names or []) - {name for name, _, _ in known}
    if unknown:
        available = ", ".join(name for name, _, _ in known) or "none"
        raise UserError(f"report: no network {sorted(unknown)[0]!r}; the warehouse has {available}")
    chosen = names or [name for name, _, _ in known]
    low, high = since or datetime.date.min, until or datetime.date.max
    files: dict[Table, list[Path]] = {}
    shown: dict[str, list[datetime.date]] = {}
    for table in {*tables, *SHOWN}.difference(UNRESTRICTED):
        files[table] = []
        for name in chosen:
            by_day = warehouse.files_by_date(table, name)
            days = [day for day in by_day if low <= day <= high]
            files[table] += [path for day in days for path in by_day[day]]
            if days and table in SHOWN:
                shown.setdefault(name, []).extend(days)
    create_views(connection, {table: files[table] for table in tables if table in files})
    if not shown:
        raise UserError(
            f"report: nothing to show for {', '.join(chosen) or 'any network'}: no marts"
            + (f" from {since}" if since else "")
            + (f" to {until}" if until else "")
        )
    colours = dict(zip([name for name, _, _ in known], cycle(NETWORK_COLOURS), strict=False))
    return Selection(
        [
            ShownNetwork(name, country, access, colours[name])
            for name, country, access in known
            if name in shown
        ],
        min(day for days in shown.values() for day in days),
        max(day for days in shown.values() for day in days),
        connection,
        lambda table, days: files_query(
            table, [path for day in days for path in warehouse.files(table, *day)]
        ),
    )
