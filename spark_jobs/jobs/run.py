"""The steps of `giscope run`, each of which makes again only what has changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import date

from spark_jobs.base.errors import WITHHELD, withheld, withhold
from spark_jobs.base.places import remove_all
from spark_jobs.capture import FrontEnd
from spark_jobs.figures.names import PLOTS
from spark_jobs.figures.tables import SHOWN
from spark_jobs.ingest.files import CaptureFile
from spark_jobs.ingest.job import ingest
from spark_jobs.ingest.leases import update_leases
from spark_jobs.ingest.publish import CaptureOutcome
from spark_jobs.jobs import flows, marts, plot, quality
from spark_jobs.report import build
from spark_jobs.settings.networks import Network
from spark_jobs.warehouse.store import Warehouse

Day = tuple[str, date]


def run(
    warehouse: Warehouse,
    networks: Collection[Network],
    work: list[CaptureFile],
    front_end: FrontEnd,
    show_outcomes: Callable[[list[CaptureOutcome]], None],
    show_line: Callable[[str], None],
) -> list[CaptureOutcome]:
    """Ingest files, and bring all that is made from them up to date; return the outcomes.

    show_outcomes, show_line: show the user the outcomes of the files, and a line of a later step
    """
    with warehouse.update_views_once():
        outcomes = ingest(warehouse, work, front_end)
        show_outcomes(outcomes)
        refused = {outcome.network for outcome in outcomes if outcome.network_refused}
        usable = [network for network in networks if network.name not in refused]
        for step in (make_flows, check_days, make_marts):
            for line in step(warehouse, usable):
                show_line(line)
        if warehouse.days("marts") or not any(outcome.error for outcome in outcomes):
            write_pages(warehouse)
    return outcomes


def make_flows(warehouse: Warehouse, networks: list[Network]) -> Iterator[str]:
    """Bring flows up to date; yield a line for each network with days that stay as they are."""
    flows.bring_up_to_date(warehouse, networks)
    yield from flows.lines_about_another_format(warehouse, networks)


def check_days(warehouse: Warehouse, networks: list[Network]) -> Iterator[str]:
    """Bring the checks of days up to date; yield their findings, but not what was withheld."""
    for verdict in quality.check(warehouse, networks):
        if verdict.fresh and verdict.remark:
            yield f"{verdict.network} {verdict.date}: {verdict.remark}"
        for finding in verdict.findings:
            if not finding.startswith(WITHHELD):
                yield f"{verdict.network} {verdict.date}: {finding}"


def make_marts(warehouse: Warehouse, _: list[Network]) -> Iterator[str]:
    """Bring the marts of all networks up to date; yield nothing."""
    marts.update_marts(warehouse)
    yield from ()


def write_pages(warehouse: Warehouse) -> None:
    """Bring the report and the pages of its examples up to date."""
    if not _has_marts(warehouse):
        withhold("report", "nothing to show: no marts")
        return
    for name, step in (("report", build.step), ("pages", plot.step)):
        with withheld(name, also_if_of_machine=True):  # a removal goes on, and makes room
            step(warehouse).bring_up_to_date(warehouse)


def refresh(warehouse: Warehouse, networks: list[Network], names: Iterable[str]) -> None:
    """Bring leases, flows and checks of `networks` up to date, and the marts of `names`.

    names: names of the networks whose marts are made

    Two kinds of days get no marts: held days that were never shown, and days without marts of a
        network whose settings are not known.
    """
    known_names = {network.name for network in networks}

    def skip(day: Day) -> bool:
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
    page, plots = warehouse.root / build.REPORT, warehouse.root / PLOTS
    stale = [step for step in (build.step, plot.step) if step(warehouse).stale(warehouse)]
    if not page.exists() or not stale:
        return
    remove_all([page, *(plots.iterdir() if plots.is_dir() else ())])
    if _has_marts(warehouse):
        write_pages(warehouse)


def _has_marts(warehouse: Warehouse) -> bool:
    return any(warehouse.files(table) for table in SHOWN)
