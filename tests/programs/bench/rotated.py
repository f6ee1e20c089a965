"""What merging saves where captures are short: `python -m tests.programs.bench.rotated`.

A network's day of 288 captures of five minutes, with few packets and with more, before and after
`giscope maintain --keep-days 0`: files, and seconds to plan the day's flows, to make them (in this
process), to count the day's packets and to read the day's ingest_log, each from a warehouse opened
anew, the best of three.
"""

import time
from collections.abc import Callable
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as Grid

from schemas import INGEST_LOG, PACKETS
from spark_jobs.ingest.job import ingest_capture
from spark_jobs.settings.networks import Network, load_networks
from spark_jobs.tables.day_plan import work_items
from spark_jobs.tables.day_tables import make_flows
from spark_jobs.warehouse.store import Warehouse
from tests.programs.bench.mix import BEGIN_US, EXCHANGE, FIRST_USER, HOUR_US, short_exchanges
from tests.programs.bench.peers import ROOT

DAY = date(2004, 3, 2)
CAPTURES, LONG_US = 288, HOUR_US // 12
EXCHANGES = (100, 1000)
"""Of a capture."""
USERS = 3000
TRIES = 3


def rotated(warehouse: Warehouse, network: Network, exchanges: int) -> None:
    """A day of captures, each of as many exchanges of any users."""
    rng, midnight_us = np.random.default_rng(1), BEGIN_US - 10 * HOUR_US
    for n in range(CAPTURES):
        capture = warehouse.root.parent / f"{DAY}-{n:03}.pcap"
        users = FIRST_USER + rng.choice(USERS, exchanges, replace=False)
        short_exchanges(capture, users, midnight_us + n * LONG_US, LONG_US - 5_000_000)
        assert ingest_capture(warehouse, network, capture).error is None
        capture.unlink()
    warehouse.update_views()


def seconds(root: Path, action: Callable[[Warehouse], Any]) -> float:
    """The least that it takes with a warehouse that is opened anew."""
    taken = []
    for _ in range(TRIES):
        warehouse = Warehouse(root)
        started = time.perf_counter()
        action(warehouse)
        taken.append(time.perf_counter() - started)
    return min(taken)


def plan(network: Network, warehouse: Warehouse) -> None:
    """The day's tasks."""
    with warehouse.staging() as staging:
        list(work_items(warehouse, network, DAY, staging.path))


def make(network: Network, warehouse: Warehouse) -> None:
    """The day's flows, not published."""
    with warehouse.staging() as staging:
        for item in work_items(warehouse, network, DAY, staging.path):
            make_flows(item)


def ask(query: str, warehouse: Warehouse) -> None:
    """An answer in SQL."""
    warehouse.connect(query).execute(query).fetchall()


def main() -> None:
    """All of it."""
    network = load_networks(ROOT / "infra/networks.toml")["aa-gprs"]
    network = Network(**{**network.model_dump(), "subscribers": ["10.0.0.0/8"]})
    actions = {
        "plan": partial(plan, network),
        "flows": partial(make, network),
        "count packets": partial(ask, f"select count(*) from packets where date = '{DAY}'"),
        "ingest_log": partial(ask, f"from ingest_log where date = '{DAY}'"),
    }
    grid = Grid("packets of a capture", "", "packets' files", "MB", "ingest_log's", *actions)
    for exchanges in EXCHANGES:
        with TemporaryDirectory() as folder:
            warehouse = Warehouse(Path(folder) / "w", timedelta(0))
            rotated(warehouse, network, exchanges)
            for when in ("before", "after"):
                files = warehouse.files(PACKETS)
                megabytes = sum(path.stat().st_size for path in files) / 1e6
                grid.add_row(
                    f"{exchanges * len(EXCHANGE):,}",
                    when,
                    f"{len(files):,}",
                    f"{megabytes:.1f}",
                    f"{len(warehouse.files(INGEST_LOG)):,}",
                    *(f"{seconds(warehouse.root, action):.2f} s" for action in actions.values()),
                )
                if when == "before":
                    started = time.perf_counter()
                    warehouse.maintain()
                    grid.add_row(
                        "", "maintain", "", "", "", f"{time.perf_counter() - started:.2f} s"
                    )
    Console(width=140).print(grid)


if __name__ == "__main__":
    main()
