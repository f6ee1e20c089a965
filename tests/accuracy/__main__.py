"""Losses, ours beside the simple rule, against the lab's ground truth: `make accuracy`.

With folders of the lab's form as arguments (gi.pcap.gz, frames.csv.gz, losses_unseen.csv), those.
With --why: what the servers' TCP did, ours beside what the sending kernel said, of the extracts in
tests/data/sender or of folders (gi.pcap.gz, sender.csv.gz, kernel_srv.json).
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

from schemas import PACKETS
from spark_jobs.jobs.ingest import ingest_capture
from spark_jobs.networks import Network, load_networks
from spark_jobs.warehouse import Warehouse
from tests.accuracy import why
from tests.accuracy.lab import Accuracy, lost_frames_csv, measure
from tests.accuracy.why import Figure, Median, Share, Total, Why

ROOT = Path(__file__).parents[2]
SHIPPED = {
    "aa-gprs-peak": "aa-gprs/peak",
    "aa-gprs-offpeak": "aa-gprs/off-peak",
    "bb-gprs-peak": "bb-gprs/peak",
    "cc-dialup-peak": "cc-dialup/peak",
}
SENDER = ROOT / "tests/data/sender"


def shipped(lab: str, network: Network) -> Accuracy:
    """A shipped capture's, by the name of its truth."""
    truth = ROOT / "tests/data/truth" / lab
    capture = ROOT / "tests/data/captures" / f"{SHIPPED[lab]}.pcap.zst"
    return measure(capture, truth / "frames_lost.csv.zst", truth / "losses_unseen.csv.zst", network)


def of_folder(folder: Path, network: Network) -> Accuracy:
    """A capture as the lab leaves it."""
    require(folder, "gi.pcap.gz", "frames.csv.gz", "losses_unseen.csv")
    with TemporaryDirectory() as scratch:
        warehouse = Warehouse(Path(scratch) / "w")
        ingest_capture(warehouse, network, folder / "gi.pcap.gz")
        frames = [
            pq.read_table(path, columns=["frame", "downlink"]) for path in warehouse.files(PACKETS)
        ]
        down = [f for t in frames for f in t["frame"].filter(t["downlink"]).to_pylist()]
        lost = Path(scratch) / "lost.csv.zst"
        lost_frames_csv(folder / "frames.csv.gz", sorted(down), lost)
        return measure(folder / "gi.pcap.gz", lost, folder / "losses_unseen.csv", network)


def require(folder: Path, *names: str) -> None:
    """Ends the program with status 2 if a folder lacks one of the files."""
    for name in names:
        if not (folder / name).is_file():
            print(f"accuracy: {folder / name}: no such file", file=sys.stderr)
            sys.exit(2)


def why_shipped(extract: str, network: Network) -> Why:
    """A shipped extract's, which has no counters of the host."""
    folder = SENDER / extract
    return why.measure(folder / "gi.pcap.zst", folder / "sender.csv.zst", None, network)


def why_of_folder(folder: Path, network: Network) -> Why:
    """A capture as the lab leaves it, with the sending kernel's word."""
    require(folder, "gi.pcap.gz", "sender.csv.gz", "kernel_srv.json")
    return why.measure(
        folder / "gi.pcap.gz", folder / "sender.csv.gz", folder / "kernel_srv.json", network
    )


def losses_grid(results: dict[str, Accuracy]) -> Grid:
    """A row a capture."""
    grid = Grid(title="Downlink data packets lost", title_justify="left")
    for heading in (
        "capture", "frames", "lost", "inferred", "precision", "recall", "recall of decided",
        "ratio, true → ours → simple rule", "simple: precision", "recall",
        "before Gi", "inferred", "expected", "precision", "recall",
    ):  # fmt: skip
        grid.add_column(heading, justify="left" if heading == "capture" else "right")
    for name, a in results.items():
        ratios = " → ".join(f"{100 * n / a.data:.2f} %" for n in (a.lost, a.expected, a.simple))
        grid.add_row(
            name, f"{a.data:,}", f"{a.lost:,}", f"{a.inferred:,}", f"{a.precision:.4f}",
            f"{a.recall:.4f}", f"{a.decided_recall:.4f}", ratios,
            f"{a.simple_hits / max(a.simple, 1):.2f}", f"{a.simple_hits / max(a.lost, 1):.2f}",
            str(a.unseen.lost), str(a.unseen.inferred), f"{a.unseen.expected:.1f}",
            f"{a.unseen.precision:.3f}", f"{a.unseen.recall:.3f}",
        )  # fmt: skip
    return grid


def shown(figure: Figure) -> str:
    """A share; ours, the truth and the difference; or a median; and whether it is as asked."""
    match figure:
        case Share(value=value, of=of):
            text = f"{100 * value:.1f} % of {of:,}" if of else "none"
        case Total(ours=ours, truth=truth):
            part = f"{100 * (ours / truth - 1):+.1f} %" if truth else f"{ours - truth:+,.0f}"
            text = f"{ours:,.0f} → {truth:,.0f}  {part}"
        case Median(value=value):
            text = f"{100 * value:.1f} %"
    return text if figure.kept else f"[bold]{text} ✗[/bold]"


def why_grid(results: dict[str, Why]) -> Grid:
    """A column a capture."""
    grid = Grid(
        title="What the servers' TCP did: giscope → the sending kernel, difference",
        title_justify="left",
        caption="✗: not as asked",
        caption_justify="left",
    )
    for heading in ("", "asked", *results):
        grid.add_column(heading, justify="right" if heading else "left")
    all_of = results.values()
    grid.add_row("connections told of", "", *(f"{w.told:,}" for w in all_of))
    grid.add_row("of these matched", "", *(f"{w.matched:,}" for w in all_of))
    grid.add_row("and told of to their end", "", *(f"{w.ended:,}" for w in all_of))
    for figures in ([w.of_connections for w in all_of], [w.of_host for w in all_of]):
        grid.add_section()
        for name, figure in figures[0].items():
            grid.add_row(name, figure.asked, *(shown(of[name]) for of in figures))
    return grid


def main() -> None:
    arguments = argparse.ArgumentParser(prog="accuracy", description=__doc__)
    arguments.add_argument("--why", action="store_true", help="what the servers' TCP did")
    arguments.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    asked = arguments.parse_args()
    network = load_networks(ROOT / "infra/networks.toml")["aa-gprs"]
    if asked.why:
        grid = why_grid(
            {f.name: why_of_folder(f, network) for f in asked.folders}
            or {path.name: why_shipped(path.name, network) for path in sorted(SENDER.iterdir())}
        )
    else:
        grid = losses_grid(
            {f.name: of_folder(f, network) for f in asked.folders}
            or {lab: shipped(lab, network) for lab in SHIPPED}
        )
    Console(width=200).print(grid)


if __name__ == "__main__":
    main()
