"""Traffic that is spread unevenly, beside the usual mix: `python -m tests.programs.bench.uneven`,
and part of `make bench-scale`.

The kinds of traffic: one user with a third of all packets; one user partition with ten times the
packets of the others; a day of a million users with ten packets each (GISCOPE_BENCH_USERS sets
another number). Each runs in a process of its own on one core. The results are packets/s from
capture to flows, their ratio to those of tests.programs.bench.mix's file, the largest resident
size, and the longest task's share of the packets and of the tasks' time.
"""

import os
import subprocess
import sys
import time
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console
from rich.table import Table as Grid

from spark_jobs.capture.users import user_partition
from spark_jobs.settings.networks import Network, Subscribers, load_networks
from spark_jobs.warehouse.store import Warehouse
from tests.programs.bench.mix import (
    BEGIN_US,
    CAPTURES,
    HOUR_US,
    SHIPPED,
    merged,
    mix,
    short_exchanges,
)  # fmt: skip
from tests.programs.bench.peers import ROOT, ingest_all, make_all_flows, packets_of

HEADINGS = (
    "traffic",
    "million packets/s",
    "relative to the usual mix",
    "peak memory, MiB",
    "longest task: share of packets",
    "share of time",
)
ANY_USER = 0x0A00_0000
"""10.0.0.0: the benchmark's subscribers are 10.0.0.0/8."""


def one_user(target: Path, exchanges: int) -> None:
    """A user with a third of the packets of so many exchanges; each other one has ten."""
    heavy, others = target.with_suffix(".heavy"), target.with_suffix(".others")
    short_exchanges(heavy, np.full(exchanges // 3, ANY_USER + 7))
    short_exchanges(others, ANY_USER + 256 + np.arange(exchanges - exchanges // 3))
    merged([heavy, others], target)


def one_partition(target: Path, exchanges: int, partitions: int) -> None:
    """A user partition with ten times the packets of each other one."""
    users = ANY_USER + np.arange(exchanges)
    of_partition = np.array(
        [user_partition(str(ip_address(int(user))), partitions) for user in users]
    )
    short_exchanges(target, users[(of_partition == 0) | (np.arange(exchanges) % 10 == 0)])


def captures(folder: Path, network: Network) -> dict[str, Path]:
    """A capture of each kind."""
    users = int(float(os.environ.get("GISCOPE_BENCH_USERS", "1e6")))
    paths = {
        kind: folder / f"{k}.pcap"
        for k, kind in enumerate(
            ("the usual mix", "one user", "one user partition", f"{users:,} users")
        )
    }
    usual, user, partition, many = paths.values()
    mix(usual, 2_000_000, 40_000)
    one_user(user, 600_000)
    one_partition(partition, 1_000_000, network.user_partitions)
    short_exchanges(many, ANY_USER + np.arange(users), BEGIN_US - 10 * HOUR_US, 23 * HOUR_US)
    return paths


def run(capture: Path, folder: Path) -> None:
    """Prints packets/s, MiB, and the longest task's share of the packets and of the tasks' time,
    of one capture, read by this process."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    network = _network()
    ingest_all(Warehouse(folder / "warm"), network, CAPTURES / SHIPPED[1])
    make_all_flows(Warehouse(folder / "warm"), network)
    warehouse = Warehouse(folder / capture.stem)
    begun = time.perf_counter()
    ingest_all(warehouse, network, capture)
    tasks = make_all_flows(warehouse, network, count_packets=True)
    seconds = time.perf_counter() - begun
    packets = packets_of(warehouse, network)
    longest = max(tasks, key=lambda task: task.seconds)
    print(
        packets / seconds,
        peak_kib() / 1024,
        longest.packets / packets,
        longest.seconds / sum(task.seconds for task in tasks),
    )


def peak_kib() -> int:
    """This process's own; ru_maxrss begins with that of the process that started it."""
    [line] = [s for s in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in s]
    return int(line.split()[1])


def _network() -> Network:
    known = load_networks(ROOT / "infra/networks.toml")["aa-gprs"]
    return known.model_copy(update={"subscribers": [Subscribers(prefix="10.0.0.0/8")]})


def measured() -> list[tuple[str, ...]]:
    """HEADINGS of each kind of traffic."""
    (ROOT / "build").mkdir(exist_ok=True)
    usual, found = None, []
    with TemporaryDirectory(dir=ROOT / "build", prefix="uneven-") as name:
        folder = Path(name)
        for kind, capture in captures(folder, _network()).items():
            command = [
                sys.executable,
                "-m",
                "tests.programs.bench.uneven",
                str(capture),
                str(folder),
            ]
            said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            speed, memory, of_packets, of_time = map(float, said.splitlines()[0].split())
            usual = usual or speed
            numbers = f"{speed / 1e6:.2f}", f"{speed / usual:.2f}", f"{memory:.0f}"
            found.append((kind, *numbers, f"{of_packets:.0%}", f"{of_time:.0%}"))
    return found


def main() -> None:
    grid = Grid(title="capture to flows, one core", title_justify="left")
    for heading in HEADINGS:
        grid.add_column(heading, justify="left" if heading == HEADINGS[0] else "right")
    for row in measured():
        grid.add_row(*row)
    Console(width=100).print(grid)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        main()
