"""Measures speed, size and memory: `make bench`.

Tiles a shipped capture to 50 million packets (GISCOPE_BENCH_PACKETS sets another number; the least
are FILES times REPETITIONS of the capture, 24 million), ingests them and makes their flows on all
cores; beside it tcptrace and tshark, where they are installed, on one smaller file, so that
machines compare by ratios.
"""

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import psutil
from rich.console import Console
from rich.table import Table as Grid

from schemas import FLOWS, PACKETS
from spark_jobs.engine.tasks import run_tasks
from spark_jobs.ingest.job import ingest, ingest_capture
from spark_jobs.jobs.flows import publish_flows
from spark_jobs.settings.networks import Network, load_networks
from spark_jobs.tables.day_plan import work_items
from spark_jobs.tables.day_tables import make_flows
from spark_jobs.warehouse.store import Warehouse
from tests.programs.bench.tile import tile

ROOT = Path(__file__).parents[3]
CAPTURES = ROOT / "tests/data/captures"
SOURCE = CAPTURES / "aa-gprs/peak.pcap.zst"
DAY = date(2004, 3, 2)
FILES = 4
REPETITIONS = 40
REFERENCE_PACKETS = 1_000_000
SAMPLE_S = 0.1


class Used(NamedTuple):
    """The cost of an action: time and the processors' time (s), the largest resident size of any
    one process that it started (bytes)."""

    seconds: float
    cpu_s: float
    peak: int


class _Watch(threading.Thread):
    """Measures what this process's descendants use while the thread runs; memory of those that do
    something, but for Java."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._cpu_s: dict[int, tuple[float, float]] = {}
        """Processor time of each process when it was first seen, and last."""
        self._stop_asked = threading.Event()
        self._look(new=False)

    def run(self) -> None:
        while not self._stop_asked.wait(SAMPLE_S):
            self._look()

    def _look(self, new: bool = True) -> None:
        for process in psutil.Process().children(recursive=True):
            try:
                times = process.cpu_times()
                cpu_s = times.user + times.system
                first, _ = self._cpu_s.get(process.pid, (0.0 if new else cpu_s, 0.0))
                self._cpu_s[process.pid] = first, cpu_s
                if cpu_s > first and "java" not in process.name():
                    self.peak = max(self.peak, process.memory_info().rss)
            except psutil.Error:
                continue

    def stop(self) -> float:
        """Ends the thread; returns the processors' time that the processes took, s."""
        self._stop_asked.set()
        self.join()
        self._look()
        return sum(last - first for first, last in self._cpu_s.values())


def measured(action: Callable[[], object]) -> Used:
    """Measures an action, with the processes that it starts and this process's own time."""
    watch = _Watch()
    watch.start()
    started, own_s = time.perf_counter(), time.process_time()
    action()
    seconds = time.perf_counter() - started
    return Used(seconds, watch.stop() + time.process_time() - own_s, watch.peak)


def bytes_on_disk(warehouse: Warehouse) -> int:
    return sum(path.stat().st_size for path in warehouse.files(PACKETS))


def rows(warehouse: Warehouse, table: str) -> int:
    answer = warehouse.connect().execute(f"select count(*) from {table}").fetchone()
    assert answer is not None
    return answer[0]


def other_tools(reference: Path, packets: int) -> dict[str, float]:
    """Measures packets/s of tcptrace and tshark on one file, where they are installed."""
    commands = {
        "tcptrace -lnrW": ["tcptrace", "-lnrW", str(reference)],
        "tshark -T fields": [
            "tshark",
            "-r",
            str(reference),
            "-T",
            "fields",
            "-e",
            "tcp.seq_raw",
            "-e",
            "tcp.ack_raw",
            "-e",
            "tcp.options.timestamp.tsval",
        ],
    }
    speeds = {}
    for name, command in commands.items():
        if shutil.which(command[0]):
            started = time.perf_counter()
            subprocess.run(
                command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            speeds[name] = packets / (time.perf_counter() - started)
    return speeds


def large_captures(folder: Path, network: Network, packets: int) -> list[tuple[Network, Path]]:
    """Makes FILES captures of `packets` in all, each with users of its own."""
    work = []
    for i in range(FILES):
        target = folder / f"bench{i}.pcap"
        tile(SOURCE, target, packets // FILES, REPETITIONS, 2 + i * REPETITIONS)
        work.append((network, target))
    return work


def main() -> None:
    packets = int(float(os.environ.get("GISCOPE_BENCH_PACKETS", "50e6")))
    network = load_networks(ROOT / "infra/networks.toml")["aa-gprs"]
    out = Console()
    (ROOT / "build").mkdir(exist_ok=True)
    with TemporaryDirectory(dir=ROOT / "build", prefix="bench-") as name:
        folder = Path(name)
        reference = folder / "reference.pcap"
        reference_packets = tile(SOURCE, reference, REFERENCE_PACKETS, 10)
        shipped = Warehouse(folder / "shipped")
        for path in sorted(CAPTURES.glob("*/*.pcap*")):
            ingest_capture(shipped, network.model_copy(update={"name": path.parent.name}), path)
        work = large_captures(folder, network, packets)
        run_tasks(
            _warm_up,
            [(folder / f"warm{i}", network) for i in range(os.cpu_count() or 1)],
            "warm up",
        )
        warehouse = Warehouse(folder / "warehouse")
        ingest_s, _, ingest_memory = measured(lambda: ingest(warehouse, work))
        count = rows(warehouse, "packets")
        flows_s, _, flows_memory = measured(lambda: publish_flows(warehouse, [(network, DAY)]))

        speeds = Grid(title=f"{count:,} packets, {os.cpu_count()} cores", title_justify="left")
        for heading in ("step", "s", "million packets/s", "peak memory of a worker, MiB"):
            speeds.add_column(heading, justify="left" if heading == "step" else "right")
        for step, seconds, peak in (
            ("ingest", ingest_s, ingest_memory),
            ("packets to flows", flows_s, flows_memory),
        ):
            speeds.add_row(
                step, f"{seconds:.1f}", f"{count / seconds / 1e6:.2f}", f"{peak / 2**20:.0f}"
            )
        out.print(speeds)
        out.print(f"{rows(warehouse, FLOWS.name):,} flows")
        out.print(
            f"packets on disk: {bytes_on_disk(warehouse) / count:.2f} bytes each; of the "
            f"shipped captures {bytes_on_disk(shipped) / rows(shipped, 'packets'):.2f}"
        )

        compared = Grid(
            title=f"one process, the same file of {reference_packets:,} packets",
            title_justify="left",
        )
        for heading in ("program", "million packets/s", "giscope is faster by"):
            compared.add_column(heading, justify="left" if heading == "program" else "right")
        single = Warehouse(folder / "single")
        started = time.perf_counter()
        ingest_capture(single, network, reference)
        mine = reference_packets / (time.perf_counter() - started)
        compared.add_row("giscope ingest", f"{mine / 1e6:.2f}", "")
        for program, speed in other_tools(reference, reference_packets).items():
            compared.add_row(program, f"{speed / 1e6:.3f}", f"{mine / speed:.1f} times")
        out.print(compared)


def _warm_up(item: tuple[Path, Network]) -> None:
    """Loads the compiled functions into a worker."""
    folder, network = item
    warehouse = Warehouse(folder)
    ingest_capture(warehouse, network, SOURCE)
    with warehouse.staging() as staging:
        for work in work_items(warehouse, network, DAY, staging.path):
            make_flows(work)


if __name__ == "__main__":
    main()
