"""Traffic that is not spread evenly, beside the usual: `python -m tests.bench.uneven`.

One user with three quarters of all packets, one bucket with ten times the packets of the others,
and an hour of a million users with ten packets each (GISCOPE_BENCH_USERS sets another number), each
in a process of its own on one core: packets/s from capture to flows, as a share of what
tests.bench.mix's file gives, and the largest resident size.
"""

import os
import subprocess
import sys
import time
from ipaddress import ip_address, ip_network
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console
from rich.table import Table as Grid

from spark_jobs.capture.users import user_bucket
from spark_jobs.networks import Network, load_networks
from spark_jobs.warehouse import Warehouse
from tests.bench.mix import CAPTURES, SHIPPED, merged, mix, short_exchanges
from tests.bench.peers import ROOT, ingest_all, make_all_flows, packets_of

ANY_USER = 0x0A00_0000
"""10.0.0.0: the benchmark's subscribers are 10.0.0.0/8."""


def one_user(target: Path, exchanges: int) -> None:
    """A user with three quarters of the packets of so many exchanges."""
    heavy, others = target.with_suffix(".heavy"), target.with_suffix(".others")
    short_exchanges(heavy, np.full(exchanges * 3 // 4, ANY_USER + 7))
    short_exchanges(others, ANY_USER + 256 + np.arange(exchanges // 4))
    merged([heavy, others], target)


def one_bucket(target: Path, exchanges: int, buckets: int) -> None:
    """A bucket with ten times the packets of each other one."""
    users = ANY_USER + np.arange(exchanges)
    of_bucket = np.array([user_bucket(str(ip_address(int(user))), buckets) for user in users])
    short_exchanges(target, users[(of_bucket == 0) | (np.arange(exchanges) % 10 == 0)])


def captures(folder: Path, network: Network) -> dict[str, Path]:
    """A capture of each kind."""
    users = int(float(os.environ.get("GISCOPE_BENCH_USERS", "1e6")))
    paths = {
        kind: folder / f"{k}.pcap"
        for k, kind in enumerate(("the usual", "one user", "one bucket", f"{users:,} users"))
    }
    usual, user, bucket, many = paths.values()
    mix(usual, 2_000_000, 40_000)
    one_user(user, 200_000)
    one_bucket(bucket, 1_000_000, network.buckets)
    short_exchanges(many, ANY_USER + np.arange(users))
    return paths


def run(capture: Path, folder: Path) -> None:
    """Prints packets/s and MiB of one capture, read by this process."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    network = _network()
    ingest_all(Warehouse(folder / "warm"), network, CAPTURES / SHIPPED[1])
    make_all_flows(Warehouse(folder / "warm"), network)
    warehouse = Warehouse(folder / capture.stem)
    begun = time.perf_counter()
    ingest_all(warehouse, network, capture)
    make_all_flows(warehouse, network)
    seconds = time.perf_counter() - begun
    packets = packets_of(warehouse, network)
    print(packets / seconds, _peak_kib() / 1024)


def _peak_kib() -> int:
    """This process's own; ru_maxrss begins with that of the process that started it."""
    [line] = [s for s in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in s]
    return int(line.split()[1])


def _network() -> Network:
    known = load_networks(ROOT / "infra/networks.toml")["aa-gprs"]
    return known.model_copy(update={"subscribers": [ip_network("10.0.0.0/8")]})


def main() -> None:
    grid = Grid(title="capture to flows, one core", title_justify="left")
    for heading in ("traffic", "million packets/s", "of the usual", "peak memory, MiB"):
        grid.add_column(heading, justify="left" if heading == "traffic" else "right")
    (ROOT / "build").mkdir(exist_ok=True)
    usual = None
    with TemporaryDirectory(dir=ROOT / "build", prefix="uneven-") as name:
        folder = Path(name)
        for kind, capture in captures(folder, _network()).items():
            command = [sys.executable, "-m", "tests.bench.uneven", str(capture), str(folder)]
            said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            speed, memory = map(float, said.splitlines()[0].split())
            usual = usual or speed
            grid.add_row(kind, f"{speed / 1e6:.2f}", f"{speed / usual:.2f}", f"{memory:.0f}")
    Console(width=100).print(grid)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        main()
