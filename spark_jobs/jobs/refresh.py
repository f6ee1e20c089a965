"""Updates of everything that is made from packets, and of the pages that show it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from pathlib import Path

from spark_jobs.base.errors import withheld, withhold
from spark_jobs.base.places import remove_all
from spark_jobs.figures.names import PLOTS
from spark_jobs.figures.tables import SHOWN
from spark_jobs.jobs import flows, marts, plot, quality
from spark_jobs.jobs.leases import update_leases
from spark_jobs.report.build import REPORT, bring_up_to_date, fingerprint_inputs
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse.store import Warehouse


def refresh(warehouse: Warehouse, networks: list[Network], names: Iterable[str]) -> None:
    """Bring leases, flows and checks of `networks` up to date, and the marts of `names`.

    names: names of the networks whose marts are made

    Two kinds of days get no marts: held days that were never shown, and days without marts of a
        network whose settings are not known.
    """
    known_names = {network.name for network in networks}

    def skip(day: tuple[str, date]) -> bool:
        if warehouse.published(marts.marts_unit(day)):
            return False
        verdict = quality.verdict_of(warehouse, *day)
        return day[0] not in known_names or (verdict is not None and verdict.held)

    if networks:
        update_leases(warehouse, networks)
        flows.bring_up_to_date(warehouse, networks)
        quality.check(warehouse, networks)
    for name in names:
        marts.update_marts(warehouse, skip, name)


def refresh_pages(warehouse: Warehouse) -> None:
    """Make the report and the pages of its examples again, if they exist and their data changed.

    They are removed first, so that a page that cannot be made again does not show removed data.
    """
    page, plots = warehouse.root / REPORT, warehouse.root / PLOTS
    inputs = fingerprint_inputs(warehouse)
    if not page.exists() or all(warehouse.is_up_to_date(name, inputs) for name in (REPORT, PLOTS)):
        return
    remove_all([page, *(plots.iterdir() if plots.is_dir() else ())])
    if _has_marts(warehouse):
        write_pages(warehouse)


def write_pages(warehouse: Warehouse) -> Path:
    """Bring the report and the pages of its examples up to date; return the report's path."""
    if not _has_marts(warehouse):
        withhold("report", "nothing to show: no marts")
    else:
        for name, write in (("report", bring_up_to_date), ("pages", plot.bring_up_to_date)):
            with withheld(name, also_if_of_machine=True):  # a removal goes on, and makes room
                write(warehouse)
    return warehouse.root / REPORT


def _has_marts(warehouse: Warehouse) -> bool:
    return any(warehouse.files(table) for table in SHOWN)
