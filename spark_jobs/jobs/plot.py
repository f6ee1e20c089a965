"""The plot job: it draws the pages of connections, and of the report's examples."""

from __future__ import annotations

from contextlib import suppress
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from spark_jobs.base.errors import WITHHELD, UserError, withheld, withhold
from spark_jobs.engine.tasks import Failure, run_tasks
from spark_jobs.figures.names import PLOTS, plot_file_name
from spark_jobs.report.build import step_of, write_page
from spark_jobs.tables.day_plan import item_of_user
from spark_jobs.warehouse.steps import Step
from spark_jobs.warehouse.store import Warehouse

if TYPE_CHECKING:
    from spark_jobs.figures.examples.page import Example
    from spark_jobs.report.connection import Connection
    from spark_jobs.tables.day_plan import WorkItem


def plot(warehouse: Warehouse, flow_id: int, output: Path) -> Path:
    """Write a connection's page, and return its path.

    Raises UserError if there is no such connection, or if its packets are gone.
    """
    from spark_jobs.report.connection import read_connection
    from spark_jobs.report.plot_page import page_of

    return write_page(page_of(warehouse, read_connection(warehouse, flow_id)), output)


def step(warehouse: Warehouse) -> Step:
    """Return the step of the pages of the report's examples; other files in PLOTS are removed."""

    def write() -> None:
        from spark_jobs.report.examples import examples

        written = write_examples(warehouse, examples(warehouse), warehouse.root)
        for path in set((warehouse.root / PLOTS).iterdir()) - set(written):
            path.unlink()

    return step_of(warehouse, PLOTS, write)


def write_examples(warehouse: Warehouse, examples: list[Example], folder: Path) -> list[Path]:
    """Write the pages of a report's examples to PLOTS in `folder`, and return the files there.

    All pages share one script of Plotly.
    """
    from plotly.offline import get_plotlyjs

    from spark_jobs.report.connection import read_connections
    from spark_jobs.report.templates import shared_script_name

    script = folder / PLOTS / shared_script_name()
    try:
        script.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise UserError(f"{script.parent}: {error.strerror}") from error
    if not script.exists():
        write_page(get_plotlyjs(), script)
    keys = {(e.network, e.date, e.flow_id) for e in examples}
    flow_ids, days = {key[-1] for key in keys}, {key[:-1] for key in keys}
    pages = [
        _Page(item, connection, script.name)
        for connection in read_connections(warehouse, sorted(flow_ids), sorted(days))
        if (item := _item_of(warehouse, connection))
    ]
    written = [script]
    for page, text in zip(pages, run_tasks(_draw, pages, "pages of connections"), strict=True):
        if isinstance(text, Failure):
            withhold(_page_of(page.connection), text.reason)
            text = f"<!doctype html><p>{escape(WITHHELD + text.reason)}</p>"
        if text:
            path = script.with_name(plot_file_name(page.connection.flow["flow_id"]))
            written.append(write_page(text, path))
    return written


class _Page(NamedTuple):
    """Page of a connection to draw; item: reads its packets; script: file of Plotly's script."""

    item: WorkItem
    connection: Connection
    script: str


def _item_of(warehouse: Warehouse, connection: Connection) -> WorkItem | None:
    """Return what reads the packets of a connection's user; None if they are gone or unknown."""
    flow = connection.flow
    # UserError: the catalog was rebuilt, and the day's flows not made again.
    with withheld(_page_of(connection)), suppress(UserError):
        return item_of_user(warehouse, flow["network"], flow["date"], flow["user"])
    return None


def _page_of(connection: Connection) -> str:
    return "page of connection {flow_id} of {network}".format(**connection.flow)


def _draw(page: _Page) -> str | None:
    """Return a page as HTML, or None if its packets are gone or cannot be read.

    The command's own process writes it: another host may not have the page's folder.
    """
    # Imported here, because only the workers need the estimators.
    from spark_jobs.report.plot_page import page_of_item

    with suppress(UserError):
        return page_of_item(*page)
    return None
