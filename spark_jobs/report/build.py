"""The report: one page with the tables and figures of all marts."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from schemas import INGEST_LOG, NETWORKS, PEAK_HOURS, QUALITY
from spark_jobs.base.errors import UserError, withheld_lines
from spark_jobs.base.sources import version
from spark_jobs.figures.tables import MARTS, SUPPRESSED_GROUPS, TABLES
from spark_jobs.warehouse.disk import replacing
from spark_jobs.warehouse.steps import Step
from spark_jobs.warehouse.store import Warehouse
from spark_jobs.warehouse.units import Unit, fingerprint

if TYPE_CHECKING:
    from spark_jobs.figures.metrics.compare import Subset

REPORT = "report.html"
"""File name of the page of all networks and days, in the warehouse's folder."""
REPORT_TABLES = (*MARTS, SUPPRESSED_GROUPS, INGEST_LOG, NETWORKS, PEAK_HOURS, QUALITY)
"""Tables that REPORT shows."""
CODE_FOLDERS = (
    "schemas",
    "spark_jobs/report",
    "spark_jobs/figures",
)
"""Folders of the code that makes REPORT."""


def fingerprint_inputs(warehouse: Warehouse) -> str:
    """Return a hash of the tables that REPORT shows and of the code that makes it."""
    return fingerprint(
        [warehouse.content_hashes(table) for table in REPORT_TABLES], version(*CODE_FOLDERS)
    )


def step_of(warehouse: Warehouse, name: str, write: Callable[[], object]) -> Step:
    """Return the step of a file or folder that shows what REPORT does. write: writes it.

    If a part of it is withheld, it is written again the next time.
    """

    def make(stale: dict[Unit, str]) -> None:
        before = len(withheld_lines)
        write()
        if len(withheld_lines) == before:
            for unit, inputs in stale.items():
                warehouse.record_made(unit, inputs)

    return Step({Unit.of_file(name): fingerprint_inputs(warehouse)}, make)


def step(warehouse: Warehouse) -> Step:
    """Return the step of REPORT."""
    return step_of(warehouse, REPORT, lambda: write_report(warehouse, warehouse.root / REPORT))


def write_report(
    warehouse: Warehouse,
    output: Path,
    networks: list[str] | None = None,
    since: datetime.date | None = None,
    until: datetime.date | None = None,
    subsets: tuple[Subset, Subset] | None = None,
) -> Path:
    """Write the page for some networks and days (by default all) and return its path.

    If `subsets` is given, the page only compares these two.

    Raises UserError if there is nothing to show or the page cannot be written.
    """
    from spark_jobs.report.page import page
    from spark_jobs.report.selection import select

    tables = TABLES.values() if subsets else REPORT_TABLES
    return write_page(page(select(warehouse, networks, since, until, tables), subsets), output)


def write_page(text: str, output: Path) -> Path:
    """Write a page and return its path; on an error, leave no partial file.

    Raises UserError if the page cannot be written.
    """
    content = text.encode()
    try:
        with replacing(output, len(content)) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise UserError(f"{output}: {error.strerror}") from error
    return output
