"""Marts to one page, made again when what it shows has changed."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from schemas import INGEST_LOG, MARTS, NETWORKS, QUALITY, SUPPRESSED_GROUPS, TABLES
from spark_jobs.errors import UserError
from spark_jobs.sources import version
from spark_jobs.warehouse import Warehouse, fingerprint
from spark_jobs.warehouse.disk import replacing

if TYPE_CHECKING:
    from spark_jobs.report.compare import Subset

REPORT = "report.html"
"""The page of all networks and days, beside the tables."""
PLOTS = "plots"
"""The folder of the pages of its examples, beside it."""
SHOWN = (*MARTS, SUPPRESSED_GROUPS, INGEST_LOG, NETWORKS, QUALITY)
ROOMS = ("schemas", "spark_jobs/report", "spark_jobs/estimators", "spark_jobs/marts")


def plot_file_name(flow_id: int) -> str:
    """The file of a connection's page."""
    return f"flow-{flow_id}.html"


def fingerprint_inputs(warehouse: Warehouse) -> str:
    """What REPORT shows, and by which code, as a hash."""
    return fingerprint([warehouse.contents(table) for table in SHOWN], version(*ROOMS))


def bring_up_to_date(warehouse: Warehouse) -> Path:
    """Write REPORT where anything it shows has changed, or where it is not as it was written."""
    inputs = fingerprint_inputs(warehouse)
    if not warehouse.is_made(REPORT, inputs):
        write_report(warehouse, warehouse.root / REPORT)
        warehouse.made(REPORT, inputs)
    return warehouse.root / REPORT


def write_report(
    warehouse: Warehouse,
    output: Path,
    networks: list[str] | None = None,
    since: datetime.date | None = None,
    until: datetime.date | None = None,
    halves: tuple[Subset, Subset] | None = None,
) -> Path:
    """Write the page for some networks and days (by default all); returns its path. halves: of the
    page, only these two beside each other.

    Raises UserError where there is nothing to show or the page cannot be written.
    """
    from spark_jobs.report.page import page
    from spark_jobs.report.selection import select

    tables = TABLES.values() if halves else SHOWN
    return write_page(page(select(warehouse, networks, since, until, tables), halves), output)


def write_page(text: str, output: Path) -> Path:
    """Write a page whole or not at all; a UserError where it cannot be written."""
    content = text.encode()
    try:
        with replacing(output, len(content)) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise UserError(f"{output}: {error.strerror}") from error
    return output
