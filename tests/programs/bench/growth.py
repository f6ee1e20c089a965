"""The time of odd shapes with four times the packets: `python -m tests.programs.bench.growth [SHAPE
...]`.

Each capture of tests.programs.bench.shapes is read and its flows are made in a process of its own,
so that its memory counts alone, SIZES packets and a fourth of them. The time is that of the
processor, the least of ROUNDS. The program ends with status 1 if a shape's time grows by more than
LIMIT.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from spark_jobs.settings.networks import Network, Subscribers, load_networks
from spark_jobs.warehouse.store import Warehouse
from tests.programs.bench.peers import ROOT, ingest_all, make_all_flows
from tests.programs.bench.shapes import SHAPES, write
from tests.programs.bench.uneven import peak_kib

PACKETS = 400_000
SIZES = {"one_long_connection": 10_000_000, "port_scan": 1_000_000, "syn_flood": 1_000_000}
"""Packets of some shapes; of the others PACKETS, or what GISCOPE_BENCH_PACKETS says."""
WARM_UP = 2_000
"""Packets that are read first, so that the compiled functions are loaded."""
FACTOR, ROUNDS, LIMIT = 4, 3, 5


def network() -> Network:
    """A network to which all shapes' users belong."""
    known = load_networks(ROOT / "infra/networks.toml")["aa-gprs"]
    return known.model_copy(update={"subscribers": [Subscribers(prefix="10.0.0.0/8")]})


def cpu_seconds(shape: str, packets: int) -> float:
    """The processor's time from capture to flows of a shape, after WARM_UP packets of it."""
    with TemporaryDirectory() as name:
        captures = [Path(name, f"{count}.pcap") for count in (WARM_UP, packets)]
        for count, capture in zip((WARM_UP, packets), captures, strict=True):
            write(SHAPES[shape](count), capture)
        return last_read(captures)


def last_read(captures: list[Path]) -> float:
    """The processor's time from capture to flows of the last of these captures."""
    for capture in captures:
        warehouse, begun = Warehouse(capture.with_suffix("")), time.process_time()
        ingest_all(warehouse, network(), capture)
        make_all_flows(warehouse, network())
    return time.process_time() - begun


def measured(shape: str, packets: int) -> tuple[float, float]:
    """(Processor's time, s; largest resident size, MiB) of a process that reads a shape; another
    one makes the capture."""
    with TemporaryDirectory(dir=ROOT / "build", prefix="growth-") as folder:
        captures = [f"{folder}/{count}.pcap" for count in (WARM_UP, packets)]
        for count, capture in zip((WARM_UP, packets), captures, strict=True):
            _run("--make", shape, str(count), capture)
        seconds, mib = json.loads(_run("--read", *captures))
    return seconds, mib


def _run(*arguments: str) -> str:
    command = [sys.executable, "-m", "tests.programs.bench.growth", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT, text=True).stdout


def main(shapes: list[str]) -> bool:
    """Print a row for each shape when it is measured; return whether all stay below LIMIT."""
    print("capture to flows, one process")
    row = "{:<40}{:>12}{:>8}{:>18}{:>8}{:>18}".format
    print(row("shape", "packets", "s", "with a fourth, s", "growth", "peak memory, MiB"))
    worst = 0.0
    for shape in shapes:
        packets = int(float(os.environ.get("GISCOPE_BENCH_PACKETS", SIZES.get(shape, PACKETS))))
        few = min(measured(shape, packets // FACTOR)[0] for _ in range(ROUNDS))
        many, mib = min(measured(shape, packets) for _ in range(ROUNDS))
        worst = max(worst, many / few)
        numbers = f"{packets:,}", f"{many:.2f}", f"{few:.2f}", f"{many / few:.1f}", f"{mib:.0f}"
        print(row(shape, *numbers), flush=True)
    return worst <= LIMIT


if __name__ == "__main__":
    (ROOT / "build").mkdir(exist_ok=True)
    action, arguments = sys.argv[1:2], sys.argv[2:]
    if action == ["--make"]:
        write(SHAPES[arguments[0]](int(arguments[1])), Path(arguments[2]))
    elif action == ["--read"]:
        print(json.dumps([last_read([*map(Path, arguments)]), peak_kib() / 1024]))
    else:
        raise SystemExit(not main(sys.argv[1:] or list(SHAPES)))
