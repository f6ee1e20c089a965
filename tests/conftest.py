"""Fixtures and helpers of all tests: the shipped captures, taken through the whole main job once; a
network and an empty warehouse; jobs without Spark."""

import fcntl
import gc
import os
import pickle
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
import zstandard
from playwright.sync_api import Browser, sync_playwright

from schemas import FROM_ZEEK_LOGS, QUIC_FLOWS, Table
from spark_jobs.engine.processes import compile_functions
from spark_jobs.figures.marts import mart
from spark_jobs.figures.tables import SUPPRESSED_GROUPS, TABLES
from spark_jobs.ingest.job import ingest
from spark_jobs.ingest.publish import CaptureOutcome
from spark_jobs.jobs.flows import publish_flows
from spark_jobs.jobs.marts import update_marts
from spark_jobs.jobs.quality import check
from spark_jobs.settings.networks import Network, load_networks
from spark_jobs.tables.day_plan import item_of_user
from spark_jobs.tables.day_tables import read_partition
from spark_jobs.tables.user_partition import UserPartition
from spark_jobs.warehouse.store import Warehouse
from tests.helpers import zeek_program

os.environ["GISCOPE_KEY"] = "".join(f"{byte:02x}" for byte in range(32))
"""The key of the pseudonyms, also for the processes that tests start."""

os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
"""Java, as its short runs in tests need it: a fifth of their time less."""

gc.set_threshold(100_000)  # as in giscope's own processes: 3 % of the tests' time

pytest_plugins = [f"tests.helpers.{name}" for name in ("catalogs", "live", "superset_server")]

ROOT = Path(__file__).parents[1]
NETWORKS_FILE = ROOT / "infra/networks.toml"
CAPTURES = ROOT / "tests/data/captures"
PUBLIC_CAPTURES = ROOT.parent / "shared/captures/public"
"""Public captures, beside a checkout; they may be absent."""
TRUTH = ROOT / "tests/data/truth"
REPORTS = ROOT / "tests/data/reports"
"""Small captures that reproduce public bug reports."""
DAY = date(2004, 3, 2)
NOON = 1_078_228_800
"""12:00 UTC on DAY, in s."""
FEW = 20_000
"""Packets of a capture that is read quickly."""
GISCOPE = Path(sys.executable).with_name("giscope")
"""The command, as it is installed."""
CHROMIUM = shutil.which("chromium")
"""The browser that opens pages, where it is installed when the tests begin."""


@pytest.fixture(scope="session")
def zeek() -> Iterator[None]:
    """Put the program zeek on the PATH."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (zeek_program.environment() or {}).items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def zeek_plugin(zeek: None) -> Iterator[None]:
    """Put zeek on the PATH, and let it find the plugin in zeek_scripts/."""
    folder = zeek_program.plugin()
    if folder is None:
        pytest.skip(
            "the plugin cannot be built: no compiler, or no headers of zeek, OpenSSL or libpcap"
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZEEK_PLUGIN_PATH", str(folder))
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        program = shutil.which("chromium")
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


EMPTY_IN_DEMO = (*FROM_ZEEK_LOGS, QUIC_FLOWS, mart("quic_beside_tcp"), SUPPRESSED_GROUPS)
"""Tables without rows in the networks of 2004."""
LTE = "dd-lte"
"""The demo's network of today, in the fixture whole_demo."""


@dataclass
class Demo:
    """The demo's warehouse, and the outcome of each capture's ingestion."""

    warehouse: Warehouse
    ingested: list[CaptureOutcome]


LONGEST = (
    "zeek/test_rows.py",
    "jobs/test_odd_values.py",
    "jobs/test_forgetting.py",
    "jobs/test_removal.py",
    "test_growth.py",
    "warehouse/test_object_store.py",
    "warehouse/test_iceberg_by_spark.py",
    "test_docs.py",
    "report/test_browser.py",
    "engine/test_tasks.py",
    "figures/test_figures_against_tables.py",
    "jobs/test_query_limits.py",
    "zeek/test_package.py",
    "zeek/test_live.py",
    "warehouse/test_spark_sql.py",
    "jobs/test_maintain.py",
    "jobs/test_unkeyed_hashes.py",
    "jobs/test_two_runs.py",
    "warehouse/test_fences.py",
    "jobs/test_rebuild.py",
)
"""Files that take longest. They begin first, so that no process is alone with one at the end."""


def pytest_configure(config: pytest.Config) -> None:
    """Compile all functions before several workers start: each would compile them for itself.

    A shell ignores Ctrl-C for what it starts in the background; commands that tests start do not.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    is_controller = not hasattr(config, "workerinput")
    if is_controller and getattr(config.option, "numprocesses", None):
        compile_functions()


PROGRAMS = {"zeek", "browser", "store", "postgresql", "server", "link"}
"""Fixtures that start a program, or a network of their own."""


INTEGRATION = {
    "Spark": (
        *("engine/test_spark.py", "engine/test_tasks.py", "engine/test_loopback.py"),
        *("warehouse/test_iceberg_by_spark.py", "warehouse/test_spark_sql.py"),
    ),
    "other programs, and processes of giscope": (
        *("compiled/test_compiled_once.py", "compiled/test_entries.py", "engine/test_compiling.py"),
        *("jobs/test_query_limits.py", "jobs/test_read_only.py", "jobs/test_serve.py"),
        *("test_audit.py", "test_extras.py", "test_images.py", "zeek/test_package.py"),
    ),
    "kills, and jobs side by side": (
        *("jobs/test_maintain.py", "jobs/test_two_runs.py", "warehouse/test_fences.py"),
        *("warehouse/test_object_store.py", "warehouse/test_readers.py"),
    ),
    "whole runs of their own": (
        *("dashboards/test_country_views.py", "dashboards/test_peak.py", "figures/test_nulls.py"),
        *("jobs/test_far_subscribers.py", "jobs/test_forgetting.py", "jobs/test_isolation.py"),
        *("jobs/test_key_periods.py", "jobs/test_marts_of_odd_values.py", "jobs/test_mixtures.py"),
        *("jobs/test_messages_of_logs.py", "jobs/test_names.py", "jobs/test_nothing_to_do.py"),
        *("jobs/test_odd_values.py", "jobs/test_rebuild.py", "jobs/test_removal.py"),
        *("jobs/test_suppressed_groups.py", "jobs/test_unkeyed_hashes.py"),
        *("jobs/test_variants.py", "test_growth.py", "test_studies.py"),
    ),
}
"""Files whose tests are marked `integration`, by what they need."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of INTEGRATION, and those that use one of PROGRAMS."""
    files = (name for names in INTEGRATION.values() for name in names)
    uses = PROGRAMS & set(getattr(item, "fixturenames", ()))
    if uses or item.path in {ROOT / "tests" / name for name in files}:
        item.add_marker(pytest.mark.integration)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with LONGEST. Without zeek, skip one of its tests and deselect the others: one line
    says so."""
    order = {ROOT / "tests" / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path, len(order)))
    of_zeek = [item for item in items if "zeek" in getattr(item, "fixturenames", ())]
    if of_zeek and zeek_program.environment() is None:
        first, *others = of_zeek
        reason = f"{len(of_zeek)} tests: {zeek_program.NOT_HERE}"
        first.add_marker(pytest.mark.skip(reason=reason))
        items[:] = [item for item in items if item not in set(others)]
        config.hook.pytest_deselected(items=others)


@pytest.fixture(scope="session")
def networks() -> dict[str, Network]:
    """Return the demo's networks of 2004, with whose figures most tests work."""
    return {name: n for name, n in load_networks(NETWORKS_FILE).items() if name != LTE}


@pytest.fixture(scope="session")
def whole_demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Make the demo with all its networks, LTE with QUIC and IPv6 among them."""
    return _demo(tmp_path_factory, "whole", load_networks(NETWORKS_FILE))


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory, networks: dict[str, Network]) -> Demo:
    """Make a warehouse with packets, flows, checks and marts of all shipped captures."""
    return _demo(tmp_path_factory, "demo", networks)


@pytest.fixture(scope="session")
def plain_demo(tmp_path_factory: pytest.TempPathFactory, networks: dict[str, Network]) -> Demo:
    """Make the demo with plain addresses of subscribers, as the ground truth names them."""
    plain = {
        name: network.model_copy(update={"pseudonyms": "none"})
        for name, network in networks.items()
    }
    return _demo(tmp_path_factory, "plain", plain)


def _demo(factory: pytest.TempPathFactory, name: str, networks: dict[str, Network]) -> Demo:
    """Return a copy for the tests of this process, because some of them make marts in it again."""

    def make(folder: Path) -> None:
        warehouse = Warehouse(folder / "w")
        found = [
            path for path in sorted(CAPTURES.glob("*/*.pcap*")) if path.parent.name in networks
        ]
        work = [(networks[path.parent.name], path) for path in found]
        ingested = ingest(warehouse, work)
        (folder / "ingested").write_bytes(pickle.dumps(ingested))
        publish_flows(warehouse, [(network, DAY) for network in networks.values()])
        check(warehouse, list(networks.values()))
        update_marts(warehouse)

    made = made_once(factory, name, make)
    root = factory.mktemp(name) / "w"
    shutil.copytree(made / "w", root)
    warehouse = Warehouse(root)
    warehouse.update_views()
    return Demo(warehouse, pickle.loads((made / "ingested").read_bytes()))


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that the first process of the tests that needs it makes, for all of them.

    Tests only read it, or copy it.
    """
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # that of all workers
    folder, done = base / name, base / f"{name}-done"
    with (base / f"{name}-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


@pytest.fixture(scope="session")
def few_captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the first packets of two shipped captures, each in its network's folder."""

    def write(folder: Path) -> None:
        for network in ("aa-gprs", "bb-gprs"):
            (folder / network).mkdir()
            raw = zstandard.decompress(CAPTURES.joinpath(network, "peak.pcap.zst").read_bytes())
            (folder / network / "peak.pcap").write_bytes(_first_records(raw, FEW))

    return made_once(tmp_path_factory, "few", write)


@dataclass
class Run:
    """The warehouse and the printed lines of a run of the command."""

    root: Path
    printed: str


@pytest.fixture(scope="session")
def few_run(few_captures: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run `giscope run` on few_captures, as users do: packets, flows, marts and the report."""

    def run(folder: Path) -> None:
        where = ("--warehouse", folder / "w", "--networks", NETWORKS_FILE)
        with (folder / "printed").open("wb") as printed:
            subprocess.run(
                [GISCOPE, "run", *where, few_captures], check=True, stdout=printed, stderr=printed
            )

    folder = made_once(tmp_path_factory, "few-run", run)
    return Run(folder / "w", (folder / "printed").read_text())


def _first_records(pcap: bytes, count: int) -> bytes:
    at = 24
    for _ in range(count):
        at += 16 + int.from_bytes(pcap[at + 8 : at + 12], "little")
    return pcap[:at]


@pytest.fixture
def network(networks: dict[str, Network]) -> Network:
    return networks["aa-gprs"]


@pytest.fixture
def plain_network(network: Network) -> Network:
    """Return a network whose subscribers keep their addresses and names."""
    return network.model_copy(update={"pseudonyms": "none"})


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """Return an empty warehouse."""
    return Warehouse(tmp_path / "w")


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run tasks in this process, without Spark: they do the same."""
    run_in_this_process(monkeypatch)


def run_in_this_process(patch: pytest.MonkeyPatch) -> None:
    """Run tasks and queries here, one after the other, without processes of their own.

    A fork of a process with threads, those of an object store for example, may wait for ever.
    """

    def run_here(task, items, on_done, on_killed):
        for number, item in enumerate(items):
            on_done(number, task(item))

    patch.delenv("GISCOPE_MASTER", raising=False)
    patch.setattr("spark_jobs.engine.processes.run", run_here)
    patch.setattr("spark_jobs.engine.processes.compile_functions", lambda: None)
    patch.setattr("spark_jobs.engine.queries.run_in_fork", lambda work, limits: work())
    patch.setattr("spark_jobs.engine.queries.Answer.limit_process", lambda answer, limits: None)


def read_user(warehouse: Warehouse, network: str, day: date, user: str) -> UserPartition | None:
    """Return a user's packets, read as for the day's flows; None without any."""
    item = item_of_user(warehouse, network, day, user)
    return read_partition(item) if item else None


def ask(warehouse: Warehouse, query: str, params: object = None) -> duckdb.DuckDBPyConnection:
    """Return a connection that has run a query, with views of the tables that it names only."""
    return warehouse.connect(query).execute(query, params)


def count(warehouse: Warehouse, what: str = "packets") -> int:
    """Return the number of rows of a table; what: the table and a condition, as SQL."""
    (n,) = ask(warehouse, f"select count(*) from {what}").fetchone()
    return n


def contents(root: Path, catalog: str | None = None) -> dict[str, tuple]:
    """Return the number of rows of each table and a hash of them in any order; sums, which DuckDB
    adds up in any order, to seven digits. catalog: see Warehouse."""
    connection = Warehouse(root, catalog=catalog).connect()

    def query(table: Table) -> str:
        columns = ", ".join(
            f'"{column.name}"' + ("::float" if column.type == pa.float64() else "")
            for column in table.arrow_with_partitions
            if (table.name, column.name) != ("ingest_log", "seconds")
        )
        rows = f"select {columns} from {table.name}"
        return f"select count(*), bit_xor(hash(rows)) from ({rows}) as rows"

    return {name: connection.execute(query(TABLES[name])).fetchone() for name in TABLES}


@pytest.fixture(
    scope="session", params=["demo", pytest.param("month", marks=pytest.mark.integration)]
)
def pages(request, demo, tmp_path_factory):
    """Return report and dashboards of the demo, and of a made-up month of three days.

    Three days are enough for lines by day.
    """
    from tests.helpers.report_and_dashboards import ReportAndDashboards
    from tests.programs.month import main as make_month

    warehouse = demo.warehouse
    if request.param == "month":
        month = made_once(
            tmp_path_factory, "month", lambda folder: make_month(warehouse.root, folder / "w", 3)
        )
        warehouse = Warehouse(month / "w")
    return ReportAndDashboards(warehouse, tmp_path_factory.mktemp("report"))
