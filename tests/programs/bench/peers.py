"""giscope beside Tstat and tcptrace, on one core and the same file: `python -m
tests.programs.bench.peers`.

Tstat and tcptrace are run where they are on the PATH, or where TSTAT and TCPTRACE name them.
Tstat's public source builds with `./autogen.sh && ./configure CFLAGS="-O2 -fcommon -std=gnu89 -w"
&& make`. The file is tests.programs.bench.mix's, of GISCOPE_BENCH_PACKETS packets (5 million if not
set) and the short exchanges of 100,000 users; CAPTURE names another. Each program has the same core
to itself, in turns; giscope reads the capture, keeps all packets, and writes every table of the
connections, in a worker process as its jobs have it, with compiled functions loaded.
"""

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

from schemas import FLOWS
from spark_jobs.engine.tasks import run_tasks
from spark_jobs.ingest.job import ingest_capture
from spark_jobs.jobs.flows import days_with_packets
from spark_jobs.settings.networks import Network, load_networks
from spark_jobs.tables.day_plan import work_items
from spark_jobs.tables.day_tables import make_flows
from spark_jobs.warehouse.store import Warehouse
from tests.programs.bench.mix import CAPTURES, SHIPPED, mix

ROOT = Path(__file__).parents[3]
ROUNDS = 3
PACKETS_OF_FLOWS = ["packets_up", "packets_down"]
USERS = 100_000
STEPS = ("giscope ingest", "giscope flows", "giscope, capture to flows")


def capture_given(folder: Path, packets: int, users: int) -> Path:
    """The capture that CAPTURE names, or a mix made in the folder."""
    if given := os.environ.get("CAPTURE"):
        return Path(given).absolute()
    mix(folder / "mix.pcap", packets, users)
    return folder / "mix.pcap"


def ingest_all(warehouse: Warehouse, network: Network, capture: Path) -> None:
    """The capture's packets into the warehouse, in this process."""
    read = ingest_capture(warehouse, network, capture)
    if read.error:
        print(read.error, file=sys.stderr)
        raise SystemExit(2)


def packets_of(warehouse: Warehouse, network: Network) -> int:
    """How many packets the warehouse has of a network."""
    return sum(
        capture.facts["packets"] for capture in warehouse.published_units("capture", network.name)
    )


class Task(NamedTuple):
    """A task of the flows job: the packets of its connections, if they are counted, and the time
    that it takes (s)."""

    packets: int
    seconds: float


def make_all_flows(
    warehouse: Warehouse, network: Network, count_packets: bool = False
) -> list[Task]:
    """Every table of the connections of every day, written and deleted."""
    tasks = []
    for day in sorted(days_with_packets(warehouse, network.name)):
        with warehouse.staging() as staging:
            for item in work_items(warehouse, network, day, staging.path):
                begun = time.perf_counter()
                made = make_flows(item)
                seconds = time.perf_counter() - begun
                packets = 0
                for file in (*made.files, *made.going_on):
                    if count_packets and file.belongs_to(FLOWS):
                        rows = pq.read_table(file.staged.path, columns=PACKETS_OF_FLOWS)
                        packets += sum(pc.sum(column).as_py() for column in rows.columns)
                tasks.append(Task(packets, seconds))
    return tasks


def capture_to_flows(network: Network, capture: Path, folder: Path) -> dict[str, float]:
    """Seconds of each step in a worker: with one core, one process and one thread."""
    return run_tasks(_capture_to_flows, [(network, capture, folder)], "capture to flows")[0]


def _capture_to_flows(item: tuple[Network, Path, Path]) -> dict[str, float]:
    network, capture, folder = item
    warehouse = Warehouse(folder / "warehouse")
    begun = time.perf_counter()
    ingest_all(warehouse, network, capture)
    ingested = time.perf_counter()
    make_all_flows(warehouse, network)
    done = time.perf_counter()
    shutil.rmtree(folder / "warehouse")
    return dict(zip(STEPS, (ingested - begun, done - ingested, done - begun), strict=True))


def other(name: str, command: list[str], folder: Path) -> dict[str, float]:
    """Seconds of a program that writes to `folder`."""
    begun = time.perf_counter()
    subprocess.run(
        command, check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return {name: time.perf_counter() - begun}


def others(network: Network, capture: Path, folder: Path) -> list[Callable[[], dict[str, float]]]:
    """The programs that are there, each to be run on the capture."""
    inside = folder / "inside"
    inside.write_text("".join(f"{prefix}\n" for prefix in network.prefixes))
    commands = {
        "Tstat": ("TSTAT", "tstat", ["-N", str(inside), "-s", str(folder / "out"), str(capture)]),
        "tcptrace -lnr": ("TCPTRACE", "tcptrace", ["-lnr", str(capture)]),
    }
    runs = []
    for name, (variable, program, arguments) in commands.items():
        found = shutil.which(os.environ.get(variable, program))
        if found:
            command = [found, *arguments]
            runs.append(lambda name=name, command=command: other(name, command, folder))
        else:
            print(f"{name} is not there: {variable} can name it", file=sys.stderr)
    return runs


def main() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    network = load_networks(ROOT / "infra/networks.toml")["aa-gprs"]
    packets = int(float(os.environ.get("GISCOPE_BENCH_PACKETS", "5e6")))
    out = Console()
    (ROOT / "build").mkdir(exist_ok=True)
    with TemporaryDirectory(dir=ROOT / "build", prefix="peers-") as name:
        folder = Path(name)
        capture = capture_given(folder, packets, USERS)
        for shipped in SHIPPED:
            capture_to_flows(network, CAPTURES / shipped, folder)
        count = ingest_capture(Warehouse(folder / "count"), network, capture).facts.frames
        programs = [
            lambda: capture_to_flows(network, capture, folder),
            *others(network, capture, folder),
        ]
        rounds: list[dict[str, float]] = []
        for _ in range(ROUNDS):
            rounds.append({k: v for run in programs for k, v in run().items()})
        table = Grid(title=f"{count:,} packets, one core, {ROUNDS} rounds", title_justify="left")
        for heading in ("program", "million packets/s: least", "median", "most"):
            table.add_column(heading, justify="left" if heading == "program" else "right")
        for program in rounds[0]:
            rates = [count / seconds[program] / 1e6 for seconds in rounds]
            table.add_row(program, *(f"{f(rates):.3f}" for f in (min, statistics.median, max)))
        out.print(table)
        for program in [name for name in rounds[0] if name not in STEPS][::-1]:
            ratios = [seconds[program] / seconds[STEPS[-1]] for seconds in rounds]
            print(
                f"beside {program}: least {min(ratios):.2f}, median "
                f"{statistics.median(ratios):.2f}, most {max(ratios):.2f} times"
            )
            if program == "Tstat":
                middle = statistics.median(ratios)
                print(f"capture to flows: {middle:.2f} times Tstat, core for core")


if __name__ == "__main__":
    main()
