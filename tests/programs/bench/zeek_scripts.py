"""How fast Zeek makes the rows: `python -m tests.programs.bench.zeek_scripts [million packets]`.

The package's script and plugin over one capture, beside Zeek without any script (the limit), and
beside the script that wrote the excerpts of the tests, where it is at hand. Rounds take turns, as
the machine's other load does; each command's median counts.
"""

import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from rich.console import Console
from rich.table import Table as Grid

from tests.helpers import zeek_program
from tests.programs.bench.tile import tile

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "tests/data/captures/aa-gprs/peak.pcap.zst"
REPETITIONS = 4
"""Of each user at a time."""
MINIMAL = zeek_program.ARCHIVES / "minimal.zeek"
ROUNDS = 7


class Cost(NamedTuple):
    """Of one run, in s."""

    wall: float
    cpu: float


def commands(folder: Path) -> dict[str, list[str]]:
    """What is compared, and the scripts that make it."""
    subscribers = str(folder / "subscribers.zeek")
    bare = [str(zeek_program.SCRIPTS / "bare.zeek"), subscribers]
    headers = [str(zeek_program.SCRIPTS / "bare-headers.zeek"), subscribers]
    found = {
        "no script": [str(folder / "nothing.zeek")],
        "minimal script": [str(MINIMAL)],
        "bare.zeek": bare,
        "bare.zeek, -O ZAM": ["-O", "ZAM", *bare],
        "plugin, with Zeek's analysis": [*headers, "GiScope::analyze_subscribers=T"],
        "plugin": headers,
    }
    if not MINIMAL.exists():
        del found["minimal script"]
    if zeek_program.plugin() is None:
        del found["plugin"], found["plugin, with Zeek's analysis"]
    return found


def run(capture: Path, arguments: list[str], folder: Path) -> Cost:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        ["zeek", "-b", "-C", "-r", capture, *arguments],
        cwd=folder,
        check=True,
        stderr=subprocess.DEVNULL,
    )
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    for written in folder.glob("*.log"):
        written.unlink()
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main() -> None:
    variables = zeek_program.environment()
    if variables is None:
        sys.exit(zeek_program.NOT_HERE)
    os.environ.update(variables, ZEEK_PLUGIN_PATH=str(zeek_program.plugin() or ""))
    packets = int(float(sys.argv[1] if len(sys.argv) > 1 else "0.5") * 1e6)
    with TemporaryDirectory(dir=ROOT / "build", prefix="bench-") as name:
        folder = Path(name)
        (folder / "subscribers.zeek").write_text(zeek_program.SUBSCRIBERS_SCRIPT)
        (folder / "nothing.zeek").write_text("redef ignore_checksums = T;\n")
        capture = folder / "a.pcap"
        packets = tile(SOURCE, capture, packets, REPETITIONS)
        costs: dict[str, list[Cost]] = {what: [] for what in commands(folder)}
        for _ in range(ROUNDS):
            for what, arguments in commands(folder).items():
                costs[what].append(run(capture, arguments, folder))
    show(packets, costs)


def beside(reference: list[Cost] | None, runs: list[Cost]) -> list[str]:
    """How many times as fast as the reference in the same round, by wall time and by CPU time."""
    if reference is None:
        return ["-", "-"]
    pairs = list(zip(reference, runs, strict=True))
    wall = statistics.median(other.wall / own.wall for other, own in pairs)
    cpu = statistics.median(other.cpu / own.cpu for other, own in pairs)
    return [f"{wall:.2f}", f"{cpu:.2f}"]


def show(packets: int, costs: dict[str, list[Cost]]) -> None:
    grid = Grid(title=f"{packets:,} packets by Zeek, {ROUNDS} rounds", title_justify="left")
    for heading in ("", "packets/s", "CPU s", "rate beside the minimal script's", "by CPU"):
        grid.add_column(heading, justify="right" if heading else "left")
    reference = costs.get("minimal script")
    for what, runs in costs.items():
        wall, cpu = (statistics.median(kind) for kind in zip(*runs, strict=True))
        grid.add_row(what, f"{packets / wall:,.0f}", f"{cpu:.2f}", *beside(reference, runs))
    Console().print(grid)


if __name__ == "__main__":
    main()
