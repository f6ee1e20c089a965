"""Where the time goes, from capture to flows: `make profile`.

One process on one core reads a capture of tests.programs.bench.mix (CAPTURE names another), then
makes its flows, each under cProfile; compiled functions are there by name. Printed is the time of
its own of each function, a packet (ns) and as a share of its step.
"""

import cProfile
import os
import pstats
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table as Grid

from spark_jobs.settings.networks import load_networks
from spark_jobs.warehouse.store import Warehouse
from tests.programs.bench.mix import CAPTURES, SHIPPED
from tests.programs.bench.peers import ROOT, capture_given, ingest_all, make_all_flows, packets_of

PACKETS, USERS = 1_500_000, 30_000
SHOWN = 0.005
"""Of a step's time: what takes less is added up."""


def profiled(action: Callable[[], object]) -> pstats.Stats:
    profile = cProfile.Profile()
    profile.runcall(action)
    return pstats.Stats(profile)


def table(step: str, stats: pstats.Stats, packets: int) -> Grid:
    """The functions that take SHOWN of the step's time or more, the slowest first."""
    own = {
        where: seconds
        for where, (_, _, seconds, _, _) in stats.stats.items()  # type: ignore[attr-defined]
    }
    total = sum(own.values())
    grid = Grid(title=f"{step}: {1e9 * total / packets:.0f} ns a packet", title_justify="left")
    grid.add_column("function")
    grid.add_column("ns a packet", justify="right")
    grid.add_column("share", justify="right")
    shown = {where: s for where, s in own.items() if s >= SHOWN * total}
    rows = [(name_of(*where), s) for where, s in sorted(shown.items(), key=lambda item: -item[1])]
    for name, seconds in [*rows, ("what takes less", total - sum(shown.values()))]:
        grid.add_row(name, f"{1e9 * seconds / packets:.1f}", f"{seconds / total:.1%}")
    return grid


def name_of(file: str, line: int, function: str) -> str:
    """A function by its module, of ours or another's."""
    if file == "~":
        return function
    path = Path(file)
    if path.is_relative_to(ROOT / "spark_jobs"):
        return f"{path.relative_to(ROOT / 'spark_jobs').with_suffix('')} {function}"
    return f"{path.parent.name}/{path.stem} {function}"


def main() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    network = load_networks(ROOT / "infra/networks.toml")["aa-gprs"]
    (ROOT / "build").mkdir(exist_ok=True)
    with TemporaryDirectory(dir=ROOT / "build", prefix="profile-") as name:
        folder = Path(name)
        capture = capture_given(folder, PACKETS, USERS)
        warm = Warehouse(folder / "warm")
        for shipped in SHIPPED:
            ingest_all(warm, network, CAPTURES / shipped)
        make_all_flows(warm, network)
        warehouse = Warehouse(folder / "warehouse")
        read = profiled(lambda: ingest_all(warehouse, network, capture))
        made = profiled(lambda: make_all_flows(warehouse, network))
        packets = packets_of(warehouse, network)
    out = Console(width=100)
    out.print(table("ingest", read, packets))
    out.print(table("flows", made, packets))


if __name__ == "__main__":
    main()
