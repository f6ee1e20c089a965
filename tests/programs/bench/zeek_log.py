"""How fast Zeek's packet log is read: `python -m tests.programs.bench.zeek_log [million rows]`.

Repeats a shipped log and reads it to packet rows in one process and, cut into a file for each, in
one process a core, as ingest does with rotated logs. Where other programs use the cores, the rows
a CPU second are more reliable than the rows a second.
"""

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from ipaddress import ip_network
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table as Grid

from spark_jobs.capture.addresses import subscriber_prefixes
from spark_jobs.capture.reader import ReadStats
from spark_jobs.capture.zeek_log import read_zeek_log
from tests.helpers.zeek_logs import header, lines, minimal_rows

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "tests/data/zeek/gprs-aa-peak.first400.log.zst"
SUBSCRIBERS = "10.64.0.0/14"


def write(path: Path, rows: int) -> Path:
    text = lines(minimal_rows(SOURCE, SUBSCRIBERS))
    with path.open("w") as file:
        file.write(header())
        for _ in range(-(-rows // text.count("\n"))):
            file.write(text)
    return path


def read(path: Path) -> tuple[int, float]:
    """(rows, CPU seconds) of a log, read once its functions are compiled."""
    prefixes = subscriber_prefixes([ip_network(SUBSCRIBERS)])
    for _ in read_zeek_log(path.with_name("warm.log"), prefixes, ReadStats()):
        pass
    reading, started = ReadStats(), time.process_time()
    for _ in read_zeek_log(path, prefixes, reading):
        pass
    return reading.frames, time.process_time() - started


def main() -> None:
    rows = int(float(sys.argv[1] if len(sys.argv) > 1 else "4") * 1e6)
    cores = os.cpu_count() or 1
    grid = Grid(title=f"{rows:,} rows of a TSV packet log", title_justify="left")
    for heading in ("processes", "million rows/s", "million rows a CPU second"):
        grid.add_column(heading, justify="right")
    with TemporaryDirectory(dir=ROOT / "build", prefix="bench-") as name:
        folder = Path(name)
        write(folder / "warm.log", 1)
        for processes in (1, cores):
            paths = [write(folder / f"{i}.log", rows // processes) for i in range(processes)]
            with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
                list(pool.map(read, [folder / "warm.log"] * processes))
                started = time.perf_counter()
                done = list(pool.map(read, paths))
                seconds = time.perf_counter() - started
            total, cpu = sum(n for n, _ in done), sum(used for _, used in done)
            grid.add_row(str(processes), f"{total / seconds / 1e6:.2f}", f"{total / cpu / 1e6:.2f}")
    Console().print(grid)


if __name__ == "__main__":
    main()
