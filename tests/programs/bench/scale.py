"""What giscope costs from ten million packets to four hundred: `make bench-scale`.

Captures of seven networks are generated from those in this repository (see
tests.programs.bench.traffic), with PACKETS_A_DAY packets a day and A_CONNECTION packets a
connection. All stages are measured; the generation is not. Each capture is emptied after it is
ingested. SIZES are in millions of packets (`make bench-scale SIZES="10 40"`). The tables are
written to docs/scale.md, between its marks. 400 million packets temporarily take 13 GB of disk.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
from rich.console import Console

from schemas import FLOWS, PACKETS, Table
from spark_jobs.dashboards.pages import DASHBOARD
from spark_jobs.figures.sql_functions import register
from spark_jobs.figures.tables import MARTS
from spark_jobs.ingest.job import ingest
from spark_jobs.jobs import flows as flows_job
from spark_jobs.settings.networks import Network, load_networks
from spark_jobs.tables.registry import ROWS
from spark_jobs.warehouse.storage import VIEWS
from spark_jobs.warehouse.store import Warehouse
from tests.programs.bench import uneven
from tests.programs.bench.bench import CAPTURES, ROOT, Used, measured, rows
from tests.programs.bench.traffic import POOL, Source, copies_for, read_source, sessions, write
from tests.programs.many_days import write_captures

PAGE = ROOT / "docs/scale.md"
PACKETS_A_DAY = 2_040_000
"""Of a network: 400 million are 28 days of seven."""
A_CONNECTION = 32
"""Packets: 12.6 million connections in 400 million."""
PARTS = 2
"""Captures of a network's day, one after the other."""
FIRST = date(2004, 3, 1)
RULE = "---", *["---:"] * (len(uneven.HEADINGS) - 1)
WARM_UP_PACKETS = 200_000
"""Taken through it all before, so that compiled functions and programs are loaded."""
GPRS, OFF_PEAK, OTHER, DIALUP = (
    CAPTURES / name
    for name in ("aa-gprs/peak.pcap.zst", "aa-gprs/off-peak.pcap.zst", "bb-gprs/peak.pcap.zst",
                 "cc-dialup/peak.pcap.zst")
)  # fmt: skip
UMTS = ROOT / "tests/data/studies/captures/umts/gi.pcap.zst"
NETWORKS = {
    "aa-gprs": ("AA", "gprs", "Europe/Budapest", (GPRS, OFF_PEAK)),
    "bb-gprs": ("BB", "gprs", "America/Sao_Paulo", (OTHER,)),
    "cc-dialup": ("CC", "dialup", "Asia/Tokyo", (DIALUP,)),
    "dd-gprs": ("DD", "gprs", "Europe/Budapest", (GPRS, OTHER)),
    "ee-gprs": ("EE", "gprs", "Asia/Tokyo", (OFF_PEAK,)),
    "ff-umts": ("FF", "umts", "Europe/Budapest", (UMTS, OTHER)),
    "gg-dialup": ("GG", "dialup", "America/Sao_Paulo", (DIALUP, OTHER)),
}
"""Country, access, time zone, and what captures its users are of."""


@dataclass
class Measured:
    """One size: how much it was, and what each stage took."""

    packets: int
    connections: int
    network_days: int
    stages: dict[str, Used] = field(default_factory=dict)
    disk: dict[str, int] = field(default_factory=dict)
    slowest_query: str = ""


def networks_file(folder: Path) -> Path:
    """The networks, as TOML."""
    entries = [
        f'[[network]]\nname = "{name}"\ncountry = "{country}"\naccess = "{access}"\n'
        f'timezone = "{timezone}"\nsubscribers = ["{POOL}"]\n'
        for name, (country, access, timezone, _) in NETWORKS.items()
    ]
    target = folder / "networks.toml"
    target.write_text("\n".join(entries))
    return target


def days_of(packets: int) -> int:
    """How many days of all networks have about so many packets."""
    return max(1, round(packets / len(NETWORKS) / PACKETS_A_DAY))


def captures(
    folder: Path, sources: dict[str, Source], network: str, day: int, packets: int
) -> Iterator[Path]:
    """The captures of a network's day, made one after the other."""
    midnight = datetime(FIRST.year, FIRST.month, FIRST.day, tzinfo=UTC) + timedelta(days=day)
    step = timedelta(days=1) / PARTS
    copies = copies_for(sources[network], packets // PARTS, A_CONNECTION)
    place = folder / network
    place.mkdir(parents=True, exist_ok=True)
    for part in range(PARTS):
        begin = midnight + part * step
        span = tuple(int(t.timestamp()) * 1_000_000 for t in (begin, begin + step))
        target = place / f"{begin:%Y-%m-%dT%H}.pcap"
        made = sessions(sources[network], copies, (span[0], span[1]), day * PARTS + part)
        write(sources[network], *made, target)
        yield target


def emptied(capture: Path) -> None:
    """A hole of the same size and time in a capture's place: it is as it was ingested."""
    status = capture.stat()
    with capture.open("wb") as file:
        file.truncate(status.st_size)
    os.utime(capture, ns=(status.st_atime_ns, status.st_mtime_ns))


def added(parts: Iterable[Used]) -> Used:
    """One after the other."""
    parts = list(parts)
    return Used(
        sum(part.seconds for part in parts),
        sum(part.cpu_s for part in parts),
        max(part.peak for part in parts),
    )


def ingest_days(
    warehouse: Warehouse, known: dict[str, Network], folder: Path, packets: int
) -> Used:
    """Make and ingest the captures of so many packets, day by day; what ingesting them takes."""
    sources = {name: read_source(of) for name, (*_, of) in NETWORKS.items()}
    days = days_of(packets)
    used = []
    for day in range(days):
        work = [
            (known[name], capture)
            for name in NETWORKS
            for capture in captures(folder, sources, name, day, packets // days // len(NETWORKS))
        ]
        used.append(measured(lambda work=work: ingest(warehouse, work)))
        for _, capture in work:
            emptied(capture)
    return added(used)


def giscope(*arguments: object) -> Used:
    """What a command takes, as a process of its own; what it says is shown where it fails."""
    command = [str(Path(sys.executable).parent / "giscope"), *map(str, arguments)]

    def run() -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)

    return measured(run)


def slowest_query(views: Path) -> tuple[str, Used]:
    """Which dataset of the dashboards takes the longest to give all its metrics, by series,
    asked once before; and how long."""
    datasets = {chart.dataset.name: chart.dataset for chart in DASHBOARD.charts}
    used = {}
    with duckdb.connect(views, read_only=True) as connection:
        register(connection)
        for name, dataset in datasets.items():
            columns = connection.sql(dataset.sql).columns
            keys = ", ".join(
                key for key in ("network", "hours", "options", "series") if key in columns
            )
            metrics = ", ".join(metric.sql for metric in dataset.metrics)
            query = f"select {keys}, {metrics} from ({dataset.sql}) group by {keys}"
            connection.sql(query).fetchall()
            used[name] = measured(lambda query=query: connection.sql(query).fetchall())
    return max(used.items(), key=lambda item: item[1].seconds)


def bytes_of(warehouse: Warehouse, tables: Iterable[Table]) -> int:
    return sum(path.stat().st_size for table in tables for path in warehouse.files(table))


def measure(folder: Path, packets: int, say: Callable[[str], None]) -> Measured:
    """All stages at one size."""
    file = networks_file(folder)
    known, warehouse, landed = load_networks(file), Warehouse(folder / "w"), folder / "captures"
    of, networks = ("--warehouse", warehouse.root), ("--networks", file)
    stages: dict[str, Used] = {}

    def stage(name: str, used: Used) -> None:
        stages[name] = used
        say(f"{packets:,} packets: {name}: {used.seconds:.1f} s, {used.cpu_s:.1f} s of the cores")

    stage("ingest", ingest_days(warehouse, known, landed, packets))
    stage("flows", measured(lambda: flows_job.bring_up_to_date(warehouse, known.values())))
    stage("marts", giscope("marts", *of))
    stage("check", giscope("check", *of, *networks))
    stage("report", giscope("report", *of, "--output", folder / "report.html"))
    stage("first run", giscope("run", *of, *networks, landed))
    stage("run", giscope("run", *of, *networks, landed))
    stage("sql", giscope("sql", *of, "select 1"))
    slowest, used = slowest_query(warehouse.root / VIEWS)
    stage("query", used)
    return Measured(
        rows(warehouse, PACKETS.name),
        rows(warehouse, FLOWS.name),
        len(warehouse.days("day")),
        stages,
        {
            "packets": bytes_of(warehouse, [PACKETS]),
            "flows and the tables beside them": bytes_of(warehouse, ROWS),
            "marts": bytes_of(warehouse, MARTS),
        },
        slowest,
    )


def nothing_to_do(folder: Path, networks: int = 5, days: int = 200) -> Used:
    """A run with nothing to do, where so many days are up to date."""
    file = write_captures(folder, networks, days)
    command = ("run", "--warehouse", folder / "w", "--networks", file, folder / "captures")
    giscope(*command)
    return giscope(*command)


def tables(sizes: Sequence[Measured]) -> str:
    """What was measured, as Markdown."""

    def row(label: str, value: Callable[[Measured], str]) -> str:
        return f"| {label} | {' | '.join(value(size) for size in sizes)} |"

    def a_packet(name: str) -> str:
        def value(size: Measured) -> str:
            cost = [one.stages[name].cpu_s / one.packets for one in (size, sizes[0])]
            return f"{1e6 * cost[0]:.2f} ({cost[0] / cost[1]:.2f})"

        return row(f"`{name}`", value)

    def head(title: str) -> list[str]:
        return ["", row(title, lambda size: f"{size.packets / 1e6:.0f} million"),
                row("---", lambda size: "---:")]  # fmt: skip

    staged = ("ingest", "flows", "marts", "check", "report")
    return "\n".join(
        [
            *head("packets"),
            row("connections", lambda size: f"{size.connections:,}"),
            row("network-days", lambda size: f"{size.network_days}"),
            *head("seconds, and million packets/s"),
            *(
                row(
                    f"`{name}`",
                    lambda size, name=name: (
                        f"{size.stages[name].seconds:.1f}, "
                        f"{size.packets / size.stages[name].seconds / 1e6:.1f}"
                    ),
                )
                for name in staged
            ),
            row(
                "packets to marts (`flows` and `marts`)",
                lambda size: f"{size.stages['flows'].seconds + size.stages['marts'].seconds:.0f}",
            ),
            *head("µs of a core per packet (ratio to the first size)"),
            *map(a_packet, staged),
            *head("largest process, MiB"),
            *(
                row(f"`{name}`", lambda size, name=name: f"{size.stages[name].peak / 2**20:.0f}")
                for name in staged
            ),
            *head("bytes per packet"),
            *(
                row(name, lambda size, name=name: f"{size.disk[name] / size.packets:.2f}")
                for name in sizes[0].disk
            ),
            *head("single commands, seconds"),
            row("`giscope run`, nothing to do", lambda size: f"{size.stages['run'].seconds:.2f}"),
            row('`giscope sql "select 1"`', lambda size: f"{size.stages['sql'].seconds:.2f}"),
            row(
                "slowest dashboard query, and its dataset",
                lambda size: f"{size.stages['query'].seconds:.2f}, {size.slowest_query}",
            ),
            "",
        ]
    )


def between_marks(name: str, text: str) -> None:
    """Put a text in its place on PAGE."""
    begin, end = f"<!-- {name}: made by make bench-scale -->\n", f"<!-- {name}: end -->"
    head, _, rest = PAGE.read_text().partition(begin)
    _, _, tail = rest.partition(end)
    PAGE.write_text(f"{head}{begin}{text}{end}{tail}")


def main() -> None:
    out = Console(soft_wrap=True)
    millions = os.environ["SIZES"].split()
    (ROOT / "build").mkdir(exist_ok=True)
    done: list[Measured] = []
    with TemporaryDirectory(dir=ROOT / "build", prefix="scale-") as name:
        warm = Path(name) / "warm"
        warm.mkdir()
        measure(warm, WARM_UP_PACKETS, lambda line: None)
        for million in millions:
            with TemporaryDirectory(dir=name) as folder:
                done.append(measure(Path(folder), int(float(million) * 1e6), out.print))
            text = tables(done)
            out.print(text)
            between_marks("scale", text)
        used = nothing_to_do(Path(name) / "days")
        after = f"`giscope run` with nothing to do after 1,000 network-days: {used.seconds:.2f} s"
        between_marks("days", f"{after}; CPU time {used.cpu_s:.2f} s\n")
    skew = [
        "",
        *(f"| {' | '.join(row)} |" for row in (uneven.HEADINGS, RULE, *uneven.measured())),
        "",
    ]
    between_marks("skew", "\n".join(skew))


if __name__ == "__main__":
    main()
