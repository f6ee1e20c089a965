"""The plot job: it draws the pages of connections, and of the report's examples."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.errors import UserError
from spark_jobs.figures.names import PLOTS, plot_file_name
from spark_jobs.report.build import fingerprint_inputs, write_page
from spark_jobs.warehouse.store import Warehouse

if TYPE_CHECKING:
    from spark_jobs.figures.examples.page import Example
    from spark_jobs.report.connection import Connection


def plot(warehouse: Warehouse, flow_id: int, output: Path) -> Path:
    """Write a connection's page, and return its path.

    Raises UserError if there is no such connection, or if its packets are gone.
    """
    from spark_jobs.report.connection import read_connection

    return write_page(page_of(warehouse, read_connection(warehouse, flow_id)), output)


def page_of(warehouse: Warehouse, connection: Connection, shared: str = "") -> str:
    """Return a connection's page as HTML; shared: see plot_page.page.

    Raises UserError if its packets are gone.
    """
    from spark_jobs.report.connection_packets import packets_of
    from spark_jobs.report.plot_page import page
    from spark_jobs.tables.day_tables import read_user

    flow = connection.flow
    partition = read_user(warehouse, flow["network"], flow["date"], flow["user"])
    exchange = packets_of(partition, connection) if partition else None
    if exchange is None:
        raise UserError(f"{warehouse.root}: no packets of flow {flow['flow_id']}")
    return page(connection, exchange, shared)


def bring_up_to_date(warehouse: Warehouse) -> None:
    """Write the pages of the report's examples, if the report's data changed or there are no pages.

    Other files in the folder are removed.
    """
    inputs = fingerprint_inputs(warehouse)
    if warehouse.is_up_to_date(PLOTS, inputs):
        return
    from spark_jobs.report.examples import examples

    written = write_examples(warehouse, examples(warehouse), warehouse.root)
    for path in set((warehouse.root / PLOTS).iterdir()) - set(written):
        path.unlink()
    warehouse.record_built(PLOTS, inputs)


def write_examples(warehouse: Warehouse, examples: list[Example], folder: Path) -> list[Path]:
    """Write the pages of a report's examples to PLOTS in `folder`, and return the files there.

    All pages share one script of Plotly.
    """
    from plotly.offline import get_plotlyjs

    from spark_jobs.report.connection import read_connections
    from spark_jobs.report.plot_page import shared_script_name

    script = folder / PLOTS / shared_script_name()
    written = [script]
    try:
        script.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise UserError(f"{script.parent}: {error.strerror}") from error
    if not script.exists():
        write_page(get_plotlyjs(), script)
    keys = {(e.network, e.date, e.flow_id) for e in examples}
    flow_ids, days = {key[-1] for key in keys}, {key[:-1] for key in keys}
    for connection in read_connections(warehouse, sorted(flow_ids), sorted(days)):
        page = script.with_name(plot_file_name(connection.flow["flow_id"]))
        # A held day may have other flows than those that its marts were made from.
        with suppress(UserError):
            written.append(write_page(page_of(warehouse, connection, script.name), page))
    return written
