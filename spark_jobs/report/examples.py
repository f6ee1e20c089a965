"""The examples of a report on some networks and days."""

import datetime

from spark_jobs.figures.examples.page import Example, examples_in
from spark_jobs.figures.tables import SUPPRESSED_GROUPS, TABLES
from spark_jobs.report.selection import select
from spark_jobs.warehouse.store import Warehouse

EXAMPLE_TABLES = [TABLES["table1_summary"], TABLES["examples"], SUPPRESSED_GROUPS]
"""Tables with the examples, and with the days of the marts."""


def examples(
    warehouse: Warehouse,
    networks: list[str] | None = None,
    since: datetime.date | None = None,
    until: datetime.date | None = None,
) -> list[Example]:
    """Return the examples of a report on some networks and days; see selection.select."""
    return examples_in(select(warehouse, networks, since, until, EXAMPLE_TABLES))
