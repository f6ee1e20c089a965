"""The report: one page with the tables and figures of all marts."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from schemas import INGEST_LOG, NETWORKS, QUALITY
from spark_jobs.base.errors import UserError, withheld_lines
from spark_jobs.base.sources import version
from spark_jobs.figures.tables import MARTS, SUPPRESSED_GROUPS, TABLES
from spark_jobs.warehouse.disk import replacing
from spark_jobs.warehouse.store import Warehouse, fingerprint

if TYPE_CHECKING:
    from spark_jobs.figures.metrics.compare import Subset

REPORT = "report.html"
"""File name of the page of all networks and days, in the warehouse's folder."""
REPORT_TABLES = (*MARTS, SUPPRESSED_GROUPS, INGEST_LOG, NETWORKS, QUALITY)
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


def bring_up_to_date(warehouse: Warehouse) -> Path:
    """Write REPORT if its tables or code have changed, or if its file is missing or altered.

    Returns its path. A report in which a section is withheld is written again the next time.
    """
    inputs = fingerprint_inputs(warehouse)
    if not warehouse.is_up_to_date(REPORT, inputs):
        before = len(withheld_lines)
        write_report(warehouse, warehouse.root / REPORT)
        if len(withheld_lines) == before:
            warehouse.record_built(REPORT, inputs)
    return warehouse.root / REPORT


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
